#   make          bin/pmcd, bin/pmcdctl and bin/pmcd-prometheus
#   make plugins  bin/plugins/pmda_NAME.so from each agents/builtin/NAME/plugin
#   make pmdas    bin/pmdas/pmdas, links to it, and bin/pmdas/pmdaopenmetrics
#   make run      bin/pmcd in the foreground, with the built-in configuration
#   make peers    PCP's packages from Debian, and a root directory of Debian 13
#                 with PCP 6.3.8, to test with (root, once)
#   make test     format, vet, unit tests, with the race detector where there is
#                 concurrency, and a little of peertest and systemtest; what this machine
#                 lacks is not run. It installs nothing, unless PEERS=install: then it
#                 begins with "make peers"
#   make ci       "make test", and all below up to systemtest; what this machine lacks fails
#   make check    staticcheck, go.mod, imports, skips
#   make peertest our pmcd beside PCP's, with PCP's clients
#   make systemtest   what an admin does with the service, on copies of this
#                 machine that boot with systemd (root with CAP_SYS_ADMIN)
#   make long     what takes hours, before a release: releasetest, qemutest, pmdatest,
#                 fuzz, fuzz-daemon, flakes, soak
#   make pmdatest PCP's agents for other programs, with those programs, under both
#                 daemons: 10 to 15 minutes; "make ci" has a short form of it
#   make fuzz     each fuzz target for FUZZTIME
#   make fuzz-daemon  pmcd with the race detector, hostile clients and agents, reloads
#                 and few descriptors for TIME, beginning with seed SEED if that is
#                 given; "make ci" has a short form of it
#   make flakes   unit tests and peertest again and again for TIME, under load: which
#                 tests depend on luck?
#   make soak     our pmcd under mixed load for TIME, or with LOGGERS clients that
#                 fetch each second; with the race detector if RACE=1
#   make bench    our pmcd and PCP's in turns: tables of ratios, at ordinary rates
#                 and in closed loops, in OUT; all numbers in bin/bench.json. BENCH
#                 has options
#   make bench-docs   the same for README.md, docs/performance.md and docs/bench:
#                 on a quiet machine
#   make picture  the picture of README.md: what "pmcdctl watch" shows
#   make picture-prometheus   the picture of docs/prometheus.md: a page of Prometheus. It
#                 needs prometheus and chromium, of Debian
#   make bench-parts  Go benchmarks of the packages
#   make release  archives, packages, list of modules and checksums in RELEASE, from a
#                 clean checkout, or with VERSION from any; ARCHS=amd64 for one processor
#   make dist     the source archive, from which packages are built without a network
#   make releasetest  "make release" for amd64 and arm64 from two directories, whose
#                 bytes are compared, all tests of packages and of trials, on Debian 12, also
#                 with sysvinit, and 13, and of Go plugins
#   make qemutest unit tests, pmcd and pmcdctl as programs for arm64 and s390x, which
#                 is big-endian, with qemu-user-static; "make ci" has package pdu
#                 for s390x
#   make install  what "make build plugins pmdas" has built, below prefix. Where
#                 PCP is installed this pmcd takes the place of its pmcd, unless
#                 SWAP= (empty) or DESTDIR is given; elsewhere units for systemd
#   make uninstall

GO       ?= go
# One variable for pmcd and for plugins: a plugin loads only into a pmcd that
# was built with the same flags.
GOBUILD  ?= $(GO) build
FUZZTIME ?= 60s
TIME     ?= 1h
SEED     ?=
RACE     ?=
LOGGERS  ?=
OUT      ?= bin/results
BENCH    ?=
PORT     ?= 44399
# Recursive: only some targets need it.
VERSION  ?= $(shell etc/packaging/version.sh)
RELEASE  ?= bin/release
# Architectures, in Go's words; all if it is empty.
ARCHS    ?=

# Where things are installed (GNU's names). DESTDIR is the root of a package.
prefix      = /usr/local
bindir      = $(prefix)/bin
sbindir     = $(prefix)/sbin
libexecdir  = $(prefix)/libexec
datadir     = $(prefix)/share
mandir      = $(datadir)/man
unitdir     = $(prefix)/lib/systemd/system
sysusersdir = $(prefix)/lib/sysusers.d
bashdir     = $(datadir)/bash-completion/completions
zshdir      = $(datadir)/zsh/site-functions
fishdir     = $(datadir)/fish/vendor_completions.d
DESTDIR     =
# Is PCP installed? A unit in /usr/local/lib would override PCP's.
PCP         = $(wildcard $(DESTDIR)/etc/pcp.conf)
SWAP        = $(if $(DESTDIR),,$(PCP))
UNITS       = $(if $(PCP),,yes)
# The PCP that this pmcd replaced may have been removed since.
SWAPOUT     = $(if $(DESTDIR),,$(if $(filter file,$(origin SWAP)),yes,$(SWAP)))

# Plugins need cgo.
export CGO_ENABLED = 1
# Without this, child processes with the race detector sleep for a second at exit.
export GORACE = atexit_sleep_ms=0

# The package with tests of pmcd and pmcdctl for other processors.
QEMUPEERS = ./cmd/pmcd/tests/qemutest

# Packages whose tests run under qemu-user: what has bytes in an order, or system calls.
QEMUPKGS = ./pdu/... ./pmnsload ./pmcdconf/... ./access ./agents ./agents/mmv ./agents/pmda/... \
	./internal/kernel ./internal/mmvformat ./internal/nametree ./internal/rawio ./internal/responder ./internal/safepath ./internal/savefile \
	./internal/tracepdu ./internal/transport ./internal/wire ./agents/builtin/mmv ./agents/builtin/pmcd ./agents/builtin/root \
	./agents/builtin/xfs ./daemon ./daemon/internal/... ./cmd/pmcd/internal/embedded

# Agents with a main package for a plugin, and those that are PMDAs: by the program pmdas, whose
# names are in its main package, except for openmetrics.
# In an archive of a release, they are built and have no sources.
PLUGINS = $(or $(patsubst agents/builtin/%/plugin,%,$(wildcard agents/builtin/*/plugin)),$(patsubst bin/plugins/pmda_%.so,%,$(wildcard bin/plugins/pmda_*.so)))
PMDAS  := $(if $(wildcard agents),$(shell sed -n 's/^\t"pmda\([a-z0-9]*\)":.*/\1/p' agents/builtin/pmdas/main.go) openmetrics,$(patsubst bin/pmdas/pmda%,%,$(filter-out bin/pmdas/pmdas,$(wildcard bin/pmdas/pmda*))))
LINKS   = $(filter-out openmetrics,$(PMDAS))
PMDABIN = $(if $(LINKS),bin/pmdas/pmdas) $(if $(filter openmetrics,$(PMDAS)),bin/pmdas/pmdaopenmetrics)

# The files that install needs besides those for bindir, and those that it creates and
# uninstall removes.
BUILT     = bin/pmcd $(PLUGINS:%=bin/plugins/pmda_%.so) $(PMDABIN) $(LINKS:%=bin/pmdas/pmda%)
OWN       = $(libexecdir)/pcp/plugins $(libexecdir)/pcp/pmdas $(libexecdir)/pcp $(datadir)/pmcd/systemd $(datadir)/pmcd
INSTALLED = $(BUILT:bin/%=$(libexecdir)/pcp/%) $(bindir)/pmcdctl $(bindir)/pmcd-prometheus $(sbindir)/swap-pmcd \
	$(addprefix $(mandir)/man1/,pmcd.1 pmcdctl.1 pmcd-prometheus.1) $(mandir)/man8/swap-pmcd.8 \
	$(unitdir)/pmcd-prometheus.service \
	$(bashdir)/pmcdctl $(zshdir)/_pmcdctl $(fishdir)/pmcdctl.fish \
	$(addprefix $(datadir)/pmcd/,pmcd.conf root labels.json) \
	$(addprefix $(datadir)/pmcd/systemd/,notify-reload.conf pmdas.conf reload.conf restart.conf watchdog.conf) \
	$(if $(UNITS),$(UNITFILES))
# Plugins of agents that were plugins, too. A line of pmcd.conf for one that does not exist is the
# built-in agent; one of an older build would not load.
GONE      = $(patsubst %,$(libexecdir)/pcp/plugins/pmda_%.so,$(filter-out $(PLUGINS),$(PMDAS)))
UNITFILES = $(unitdir)/pmcd.service $(unitdir)/pmcd.socket $(sysusersdir)/pmcd.conf
# Was pmcd installed before PCP? PCP's unit may be in the same directory.
OLDUNITS  = grep -qs '^ExecStart=$(libexecdir)/pcp/pmcd ' $(DESTDIR)$(unitdir)/pmcd.service

# Units are not touched: a package is made, systemd does not run, or this is not root.
STAGED    = [ -n "$(DESTDIR)" ] || [ ! -w /run/systemd/system ]
NOSWAP    = { echo "make: to leave PCP's pmcd as it is: make $@ SWAP=" >&2; exit 1; }

.PHONY: all build plugins pmdas run install uninstall release dist releasetest qemutest test ci ci-rest check peertest systemtest pmdatest fuzz fuzz-daemon flakes long soak bench bench-docs picture picture-prometheus bench-parts peers clean
.NOTPARALLEL:

all: build

build:
	$(GOBUILD) -o bin/linked/ ./cmd/pmcd ./cmd/pmcd/pmcdctl ./cmd/pmcd/pmcd-prometheus
	@# Of a file that the linker has written 5 MB more are in memory than of a copy.
	@for p in pmcd pmcdctl pmcd-prometheus; do cp bin/linked/$$p bin/$$p.new && mv bin/$$p.new bin/$$p || exit 1; done; rm -r bin/linked

plugins: $(PLUGINS:%=bin/plugins/pmda_%.so)

pmdas: $(PMDABIN) $(LINKS:%=bin/pmdas/pmda%)

# The go command knows what is up to date.
bin/plugins/pmda_%.so: FORCE
	$(GOBUILD) -buildmode=plugin -o $@ ./agents/builtin/$*/plugin

bin/pmdas/pmdas: FORCE
	$(GOBUILD) -o $@ ./agents/builtin/pmdas

bin/pmdas/pmdaopenmetrics: FORCE
	$(GOBUILD) -o $@ ./agents/builtin/openmetrics/pmdaopenmetrics

bin/pmdas/pmda%: FORCE
	ln -sf pmdas $@

FORCE:

# As on a host without PCP, and beside another pmcd: it needs and writes no file
# outside of this directory. ^C ends it. The name is not pmcd, for "pmsignal -a pmcd".
run: build
	@mkdir -p bin/run
	@ln -sf ../pmcd bin/run/pmcd-run
	@exec bin/run/pmcd-run -f --embedded -p $(PORT) -s $(CURDIR)/bin/run/pmcd.socket -l $(CURDIR)/bin/run/pmcd.log

install:
	@for f in $(BUILT) bin/pmcdctl bin/pmcd-prometheus; do [ -e $$f ] || { echo "$$f is missing: make build plugins pmdas" >&2; exit 1; }; done
	install -d $(addprefix $(DESTDIR),$(sort $(dir $(INSTALLED))))
	install -m 755 bin/pmcd $(DESTDIR)$(libexecdir)/pcp/
	$(if $(PLUGINS),install -m 755 $(PLUGINS:%=bin/plugins/pmda_%.so) $(DESTDIR)$(libexecdir)/pcp/plugins/)
	$(if $(PMDAS),install -m 755 $(PMDABIN) $(DESTDIR)$(libexecdir)/pcp/pmdas/)
	for n in $(LINKS); do ln -sf pmdas $(DESTDIR)$(libexecdir)/pcp/pmdas/pmda$$n || exit 1; done
	rm -f $(addprefix $(DESTDIR),$(GONE))
	install -m 755 bin/pmcdctl bin/pmcd-prometheus $(DESTDIR)$(bindir)/
	sed 's|^new=.*|new=$(libexecdir)/pcp/pmcd|' etc/swap-pmcd.sh >$(DESTDIR)$(sbindir)/swap-pmcd
	chmod 755 $(DESTDIR)$(sbindir)/swap-pmcd
	install -m 644 docs/pmcd.1 docs/pmcdctl.1 docs/pmcd-prometheus.1 $(DESTDIR)$(mandir)/man1/
	install -m 644 docs/swap-pmcd.8 $(DESTDIR)$(mandir)/man8/
	install -m 644 etc/completions/pmcdctl.bash $(DESTDIR)$(bashdir)/pmcdctl
	install -m 644 etc/completions/_pmcdctl $(DESTDIR)$(zshdir)/
	install -m 644 etc/completions/pmcdctl.fish $(DESTDIR)$(fishdir)/
	install -m 644 etc/pmcd.conf etc/root etc/labels.json $(DESTDIR)$(datadir)/pmcd/
	install -m 644 $(addprefix systemd/,notify-reload.conf pmdas.conf reload.conf restart.conf watchdog.conf) $(DESTDIR)$(datadir)/pmcd/systemd/
	sed 's|@EXPORTER@|$(bindir)/pmcd-prometheus|' systemd/pmcd-prometheus.service >$(DESTDIR)$(unitdir)/pmcd-prometheus.service
	chmod 644 $(DESTDIR)$(unitdir)/pmcd-prometheus.service
ifneq ($(UNITS),)
	sed 's|@PMCD@|$(libexecdir)/pcp/pmcd|' systemd/pmcd.service >$(DESTDIR)$(unitdir)/pmcd.service
	chmod 644 $(DESTDIR)$(unitdir)/pmcd.service
	install -m 644 systemd/pmcd.socket $(DESTDIR)$(unitdir)/
	install -m 644 systemd/sysusers.conf $(DESTDIR)$(sysusersdir)/pmcd.conf
	@[ -n "$(DESTDIR)" ] || command -v systemd-sysusers >/dev/null || getent passwd pcp >/dev/null || { \
		echo "make: systemd-sysusers is missing, which would make the account pcp that pmcd needs. Make it with"; \
		echo "    useradd --system --user-group --home-dir /var/lib/pcp --shell /usr/sbin/nologin pcp"; } >&2
else ifneq ($(PCP),)
	@! $(OLDUNITS) || { rm -f $(addprefix $(DESTDIR),$(UNITFILES)) && \
		echo "make: the units of a host without PCP are removed, for PCP's to start this pmcd. Now do" && \
		echo "    systemctl disable --now pmcd.socket; systemctl daemon-reload"; } >&2
endif
ifneq ($(SWAP),)
	$(sbindir)/swap-pmcd in || $(NOSWAP)
endif

# Directories with files of other packages stay.
uninstall:
ifneq ($(SWAPOUT),)
	[ ! -e $(sbindir)/swap-pmcd ] || $(sbindir)/swap-pmcd out || $(NOSWAP)
endif
	$(STAGED) || for u in pmcd-prometheus.service pmcd.socket $(if $(PCP),,pmcd.service); do \
		[ ! "$$(systemctl show --value -p FragmentPath $$u)" -ef $(unitdir)/$$u ] || systemctl disable --now $$u; done
	! $(OLDUNITS) || rm -f $(addprefix $(DESTDIR),$(UNITFILES))
	rm -f $(addprefix $(DESTDIR),$(INSTALLED) $(GONE))
	$(STAGED) || systemctl daemon-reload
	for d in $(addprefix $(DESTDIR),$(OWN)); do [ ! -d $$d ] || rmdir --ignore-fail-on-non-empty $$d; done

release:
	@v="$(VERSION)" && [ -n "$$v" ] && etc/packaging/release.sh $(ARCHS:%=-a %) "$$v" $(RELEASE)

dist:
	@v="$(VERSION)" && [ -n "$$v" ] && etc/packaging/dist.sh "$$v" $(RELEASE)

# The second build has no results of the first one.
releasetest:
	etc/peers.sh -r
	PMCD_REQUIRE_PEERS=1 PMCD_LONG=1 $(GO) test -count=1 -v -timeout 120m ./cmd/pmcd/tests/packagetest ./cmd/pmcd/tests/plugintest
	PMCD_REQUIRE_PEERS=1 PMCD_LONG=1 $(GO) test -count=1 -v -timeout 60m -run '^Test(Package|Trial|SwapCheck|Zeroconf)' ./cmd/pmcd/tests/systemtest

# It installs nothing, unless PEERS=install.
test:
	$(if $(filter install,$(PEERS)),etc/peers.sh)
	@$(GO) run ./etc/runtests test

# What a test needs and the machine lacks is a failure.
ci ci-rest: export PMCD_REQUIRE_PEERS = 1
ci: peers
	@$(GO) run ./etc/runtests -slowest 20 test rest

ci-rest:
	@$(GO) run ./etc/runtests -slowest 20 rest

check peertest systemtest:
	@PMCD_REQUIRE_PEERS=1 $(GO) run ./etc/runtests $@

flakes: peers
	@$(GO) run ./etc/runtests -flakes $(TIME) flakes

# What takes hours. Run it before a release.
long: releasetest qemutest pmdatest fuzz fuzz-daemon flakes soak
	PMCD_REQUIRE_PEERS=1 PMCD_LONG=1 $(GO) test -count=1 -v -timeout 60m -run '^TestPeer' ./bench

peers:
	etc/peers.sh

qemutest: peers
	GO="$(GO)" etc/qemutest.sh s390x qemu-s390x-static $(QEMUPKGS)
	GO="$(GO)" etc/qemutest.sh arm64 qemu-aarch64-static $(QEMUPKGS)
	PMCD_REQUIRE_PEERS=1 $(GO) test -count=1 -v -timeout 30m $(QEMUPEERS)

pmdatest: peers
	etc/peers-root.sh trixie servers
	etc/peers-root.sh bookworm servers
	PMCD_REQUIRE_PEERS=1 PMCD_LONG=1 $(GO) test -count=1 -v -timeout 90m -run '^TestPeerLong$$' ./cmd/pmcd/tests/pmdatest

fuzz:
	@echo "== fuzzing, $(FUZZTIME) a target"
	GO="$(GO)" etc/fuzz.sh $(FUZZTIME)

fuzz-daemon:
	PMCD_FUZZ_TIME=$(TIME) PMCD_FUZZ_SEED=$(SEED) $(GO) test -count=1 -v -timeout 0 -run '^TestFuzzDaemon$$' ./cmd/pmcd/tests/fuzztest

bin/bench: FORCE
	$(GO) build -o $@ ./bench

# Not into bin/pmcd, which has no race detector.
soak: bin/bench
	$(GO) build $(if $(RACE),-race) -o bin/soak/pmcd ./cmd/pmcd
	bin/bench -pmcd bin/soak/pmcd -soak $(TIME) $(if $(LOGGERS),-soak-loggers $(LOGGERS))

bench: build peers bin/bench
	@mkdir -p $(OUT)
	bin/bench -text $(OUT)/table.md -json bin/bench.json $(BENCH)

bench-docs:
	$(MAKE) bench OUT=docs/bench BENCH="-into README.md,docs/performance.md $(BENCH)"

picture: build
	PORT=$(PORT) etc/picture.sh >bin/watch.svg && mv bin/watch.svg docs/watch.svg

picture-prometheus: build
	PORT=$(PORT) etc/picture-prometheus.sh bin/prometheus.png && mv bin/prometheus.png docs/prometheus.png

bench-parts:
	$(GO) test -run '^$$' -bench . -benchmem -benchtime 0.2s ./...

clean:
	rm -rf bin .peers
