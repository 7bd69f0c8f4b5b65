#!/bin/sh
# packages.sh - make the deb and the rpm packages from programs that are built.
#
# usage: etc/packaging/packages.sh VERSION ARCH BIN OUT
#
# BIN is a directory as "make build plugins pmdas" makes it, and ARCH its
# architecture in Go's words. SOURCE_DATE_EPOCH is the time of all files. Packages are
# written to OUT. KINDS is the kinds to make [deb rpm], COMPRESSION that of dpkg and rpm
# [xz], and MAINTAINER who makes the packages: a name and an address.
set -eu

die() { printf 'packages: %s\n' "$*" >&2; exit 1; }

[ $# -eq 4 ] || die "usage: etc/packaging/packages.sh VERSION ARCH BIN OUT"
version=$1
arch=$2
bin=$(cd "$3" && pwd)
mkdir -p "$4"
out=$(cd "$4" && pwd)
cd "$(dirname "$0")/../.."
umask 022
export LC_ALL=C TZ=UTC
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
# GitHub's address for the account of the project. It takes no mail: reports go to the URL below.
maintainer=${MAINTAINER:-pmcd maintainers <gopcp@users.noreply.github.com>}
home=https://github.com/gopcp/pmcd

# A build between two releases is older than the next release.
case $version in
*+git.*) version="${version%%+git.*}~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).${version##*+git.}" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# Later versions of nfpm do not build with the release of Go in go.mod.
tools=${XDG_CACHE_HOME:-$HOME/.cache}/pmcd-tools/nfpm-v2.44.1
[ -e "$tools/nfpm" ] ||
	env -u CC -u GOARCH -u GOOS CGO_ENABLED=0 GOFLAGS='' GOWORK=off GOBIN="$tools" go install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.1

# put installs a file: mode, source, path in the package.
put() { install -D -m "$1" "$2" "$root$3"; }

# page installs a manual page, compressed, with its name and section as the last argument.
page() { # source name.section
	mkdir -p "$root/usr/share/man/man${2##*.}"
	gzip -9n <"$1" >"$root/usr/share/man/man${2##*.}/$2.gz"
}

# common installs what pmcd and pmcd-swap have in common, which conflict.
common() {
	put 755 "$bin/pmcdctl" /usr/bin/pmcdctl
	page docs/pmcdctl.1 pmcdctl.1
	put 644 etc/pmcd.conf /usr/share/pmcd/pmcd.conf
	put 644 etc/root /usr/share/pmcd/root
	put 644 etc/labels.json /usr/share/pmcd/labels.json
	put 644 etc/packaging/logrotate.conf /usr/share/pmcd/logrotate.conf
	for f in notify-reload pmdas reload restart watchdog; do
		put 644 "systemd/$f.conf" "/usr/share/pmcd/systemd/$f.conf"
	done
	put 644 etc/completions/pmcdctl.bash /usr/share/bash-completion/completions/pmcdctl
	put 644 etc/completions/pmcdctl.fish /usr/share/fish/vendor_completions.d/pmcdctl.fish
	case $kind in
	deb) put 644 etc/completions/_pmcdctl /usr/share/zsh/vendor-completions/_pmcdctl ;;
	rpm) put 644 etc/completions/_pmcdctl /usr/share/zsh/site-functions/_pmcdctl ;;
	esac
}

# fill_NAME puts the files of package NAME into $root.
fill_pmcd() {
	common
	put 755 "$bin/pmcd" /usr/libexec/pcp/pmcd
	page docs/pmcd.1 pmcd.1
	sed 's|@PMCD@|/usr/libexec/pcp/pmcd|' systemd/pmcd.service >"$work/pmcd.service"
	put 644 "$work/pmcd.service" /usr/lib/systemd/system/pmcd.service
	put 644 systemd/pmcd.socket /usr/lib/systemd/system/pmcd.socket
	put 644 systemd/sysusers.conf /usr/lib/sysusers.d/pmcd.conf
	put 644 systemd/tmpfiles.conf /usr/lib/tmpfiles.d/pmcd.conf
}

fill_pmcd_swap() {
	common
	page docs/pmcd-swap.8 pmcd-swap.8
	# PCP's package has pmcd(1) in section 1.
	mkdir -p "$root/usr/share/man/man1"
	sed 's/^\.Dt PMCD 1$/.Dt PMCD 1go/' docs/pmcd.1 | gzip -9n >"$root/usr/share/man/man1/pmcd.1go.gz"
	case $kind in
	deb) put 755 "$bin/pmcd" /usr/lib/pcp/bin/pmcd ;; # diverted: see pmcd-swap.preinst
	rpm)
		put 755 "$bin/pmcd" /usr/libexec/pcp/pmcd
		sed 's|^new=.*|new=/usr/libexec/pcp/pmcd|' etc/swap-pmcd.sh >"$work/swap-pmcd"
		put 755 "$work/swap-pmcd" /usr/sbin/swap-pmcd
		page docs/swap-pmcd.8 swap-pmcd.8
		put 644 etc/packaging/selinux/pmcd-go.te /usr/share/pmcd/selinux/pmcd-go.te
		put 644 etc/packaging/scripts/pmcd-swap.conf /usr/lib/systemd/system/pmcd.service.d/pmcd-swap.conf
		;;
	esac
}

fill_pmcd_plugins() {
	for f in "$bin"/plugins/*.so; do put 644 "$f" "/usr/libexec/pcp/plugins/${f##*/}"; done
	for f in "$bin"/pmdas/*; do put 755 "$f" "/usr/libexec/pcp/pmdas/${f##*/}"; done
}

fill_pmcd_prometheus() {
	put 755 "$bin/pmcd-prometheus" /usr/bin/pmcd-prometheus
	page docs/pmcd-prometheus.1 pmcd-prometheus.1
	sed 's|@EXPORTER@|/usr/bin/pmcd-prometheus|' systemd/pmcd-prometheus.service >"$work/pmcd-prometheus.service"
	put 644 "$work/pmcd-prometheus.service" /usr/lib/systemd/system/pmcd-prometheus.service
	put 644 etc/packaging/firewalld/pmcd-prometheus.xml /usr/lib/firewalld/services/pmcd-prometheus.xml
}

# doc installs what a package of either kind says about itself.
doc() { # name
	dir=$root/usr/share/doc/$1
	mkdir -p "$dir"
	case $kind in
	deb)
		{
			echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
			printf 'Upstream-Name: pmcd\nSource: %s\n\nFiles: *\nCopyright: 2026 The pmcd authors\nLicense: Apache-2.0\n' $home
			echo ' On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.'
		} >"$dir/copyright"
		{
			printf '%s (%s) unstable; urgency=medium\n\n' "$1" "$version"
			printf '  * The changes of each version are in CHANGELOG.md.gz.\n\n -- %s  %s\n' "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
		} | gzip -9n >"$dir/changelog.gz"
		gzip -9n <CHANGELOG.md >"$dir/CHANGELOG.md.gz"
		! [ -e "etc/packaging/scripts/$1.lintian" ] || put 644 "etc/packaging/scripts/$1.lintian" "/usr/share/lintian/overrides/$1"
		;;
	rpm)
		put 644 LICENSE "/usr/share/licenses/$1/LICENSE"
		put 644 CHANGELOG.md "/usr/share/doc/$1/CHANGELOG.md"
		;;
	esac
}

# list prints a field of the control file, if it has values.
list() { # field value ...
	field=$1
	shift
	[ $# -gt 0 ] || return 0
	echo "$field:"
	printf -- '- "%s"\n' "$@"
}

# package makes package $1, whose summary and description are $2 and $3, in the form of
# $kind. The relations are in the variables depends, recommends, conflicts and provides,
# with a semicolon between two.
package() {
	root=$work/$kind/$1
	mkdir -p "$root"
	"fill_$(echo "$1" | tr - _)"
	doc "$1"
	find "$root" -depth -type d -empty -delete
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	{
		printf 'name: %s\narch: %s\nplatform: linux\nversion: "%s"\nversion_schema: none\nsection: utils\npriority: optional\n' "$1" "$arch" "$version"
		printf 'maintainer: "%s"\nvendor: "%s"\nhomepage: %s\nlicense: Apache-2.0\n' "$maintainer" "The pmcd authors" $home
		case $kind in deb) printf 'description: |\n  %s\n%s\n' "$2" "$(echo "$3" | sed 's/^/  /')" ;; rpm) printf 'description: |\n%s\n' "$(echo "$3" | sed 's/^/  /')" ;; esac
		(
			IFS=';'
			# shellcheck disable=SC2086 # lists
			{ list depends $depends; list recommends $recommends; list conflicts $conflicts; list provides $provides; }
		)
		echo 'contents:'
		find "$root" -type f -printf '- src: "%p"\n  dst: "/%P"\n  file_info: {mode: 0%m}\n' | paste - - - | sort | tr '\t' '\n'
		scripts=
		for s in preinst:preinstall postinst:postinstall prerm:preremove postrm:postremove; do
			file=etc/packaging/scripts/$1.$kind.${s%:*}
			[ ! -e "$file" ] || scripts="$scripts  ${s#*:}: $file
"
		done
		[ -z "$scripts" ] || printf 'scripts:\n%s' "$scripts"
		printf 'deb:\n  compression: %s\nrpm:\n  compression: %s\n  buildhost: localhost\n  summary: "%s"\n' "${COMPRESSION:-xz}" "${COMPRESSION:-xz}" "$2"
	} >"$work/$kind/$1.yaml"
	"$tools/nfpm" pkg -f "$work/$kind/$1.yaml" -p "$kind" -t "$out/" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "nfpm failed for $1"; }
	# It prints the name of the file in a form of its own.
	sed -n 's/^created package: /packages: /p' "$work/log"
}

about='pmcd answers clients of Performance Co-Pilot (PCP) with the metrics of this
host: it asks agents, and has those for the kernel built in.'

for kind in ${KINDS:-deb rpm}; do
	case $kind in
	deb)
		libc='libc6 (>= 2.28)'
		sasl='libsasl2-2;libsasl2-modules'
		build="pmcd-build (= $version)"
		;;
	rpm)
		libc='glibc >= 2.28'
		sasl='cyrus-sasl-lib'
		build="pmcd-build = $version"
		;;
	esac
	depends=$libc recommends=$sasl conflicts='pcp;pmcd-swap' provides=$build
	package pmcd 'collector daemon of Performance Co-Pilot, in Go' "$about
This package is for hosts without PCP's own daemon. Its service listens on the
loopback addresses, and needs no configuration."
	depends="$libc;pcp" recommends=$sasl conflicts=pmcd provides=$build
	package pmcd-swap 'collector daemon in Go in the place of the one of PCP' "$about
This package has PCP's units and scripts start this pmcd instead of that of
package pcp, with the same configuration and agents. Its removal puts PCP's
pmcd back."
	depends="$libc;$build" recommends='' conflicts='' provides=''
	package pmcd-plugins 'built-in agents of pmcd as plugins and programs' "These are the agents that are built into pmcd, as Go plugins for a dso line of
pmcd.conf, which only pmcd of the same build loads, and as programs for a pipe
line, which any pmcd starts."
	depends=$libc recommends='' conflicts='' provides=''
	package pmcd-prometheus 'exporter for Prometheus of the metrics of pmcd' "pmcd-prometheus serves the metrics of a pmcd, in Go or of PCP, to Prometheus,
with the names and labels that pmproxy gives them. Its service is off until it
is enabled."
done
