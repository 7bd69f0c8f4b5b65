#!/bin/sh
# peers.sh - get the real PCP ready as the peer of our tests, on Debian 12.
#
# usage: etc/peers.sh [-r] [DIR]     DIR (default .peers) receives what is built here
#
# With -r also what "make releasetest" needs: the C compilers for all processors that
# packages are for, podman, and Debian 13, and 12 with sysvinit, as machines that can be booted.
# Installs Debian's PCP packages if one is missing (this needs root), builds the
# installation's name space and, in DIR, the demonstration agents that Debian
# ships as sources only; and a root directory of Debian 13 (see peers-root.sh).
# No daemon is started and none is left running. When all
# is there it changes nothing and takes a fraction of a second.
set -eu

packages='pcp pcp-conf pcp-testsuite pcp-export-pcp2json pcp-export-pcp2xml libpcp3-dev libpcp-pmda3-dev libpcp-trace2-dev python3-pcp python3-requests libsasl2-modules libsasl2-modules-db sasl2-bin gcc make libc6-dev procps iproute2 tzdata tmux zsh fish bash-completion redis-server prometheus systemd dbus strace util-linux mount perl shellcheck man-db mandoc lintian rpm cpio checkpolicy semodule-utils qemu-user-static'
release=
if [ "${1:-}" = -r ]; then
	shift
	release=yes
	packages="$packages podman"
	case $(uname -m) in
	x86_64) packages="$packages gcc-aarch64-linux-gnu" ;;
	aarch64) packages="$packages gcc-x86-64-linux-gnu" ;;
	esac
fi
dir=${1:-.peers}

say() { printf 'peers: %s\n' "$*"; }
die() { printf 'peers: %s\n' "$*" >&2; exit 1; }

missing=
for p in $packages; do
	st=$(dpkg-query -W -f '${Status}' "$p" 2>/dev/null) || st=
	[ "$st" = 'install ok installed' ] || missing="$missing $p"
done

if [ -n "$missing" ]; then
	command -v apt-get >/dev/null || die "not a Debian machine: install PCP 6.0.3 by hand"
	[ "$(id -u)" = 0 ] || die "run as root once, to install:$missing"
	say "installing$missing"

	# The packages' scripts enable and start services. In a container systemctl
	# is often installed without a running systemd; it fails, and with it the
	# installation. Elsewhere it would start a pmcd, which the tests do not
	# need. These tools come first in PATH and do nothing. Unlike a diversion
	# or a policy-rc.d they leave no trace if this script is killed.
	shim=$(mktemp -d)
	trap 'rm -rf "$shim"' EXIT
	trap 'exit 1' HUP INT TERM
	for t in systemctl deb-systemd-invoke invoke-rc.d; do
		printf '#!/bin/sh\nexit 0\n' >"$shim/$t"
		chmod 755 "$shim/$t"
	done
	path=$shim:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	export DEBIAN_FRONTEND=noninteractive
	# apt gives dpkg a PATH of its own.
	apt="apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o DPkg::Path=$path"
	$apt update
	# An installation that was interrupted (or that failed at the very step the
	# tools above avoid) is completed first, or apt refuses everything.
	PATH=$path dpkg --configure -a
	# shellcheck disable=SC2086  # lists of words
	$apt install -y --no-install-recommends $packages
	case " $missing " in
	*' podman '*)
		# Copies of this machine that tests boot are not to run it.
		systemctl -q disable podman.service podman.socket podman-restart.service podman-auto-update.service podman-auto-update.timer
		;;
	esac
fi

# The name space is normally put together by the service's start script.
pmns=/var/lib/pcp/pmns
if [ ! -s $pmns/root ] || [ -e $pmns/.NeedRebuild ]; then
	[ "$(id -u)" = 0 ] || die "run as root once, to build $pmns/root"
	say "building $pmns/root"
	(cd $pmns && ./Rebuild -s </dev/null)
	rm -f $pmns/.NeedRebuild
	[ -s $pmns/root ] || die "$pmns/Rebuild made no $pmns/root"
fi

# Containers often have IPv6 switched off. The tests want ::1 and nothing more;
# where it cannot be had they say so.
if ! grep -q '^0\{31\}1 ' /proc/net/if_inet6 2>/dev/null && [ "$(id -u)" = 0 ]; then
	say "turning on ::1"
	sysctl -qw net.ipv6.conf.lo.disable_ipv6=0 2>/dev/null || :
	ip -6 addr add ::1/128 dev lo 2>/dev/null || :
fi

# Debian compiles most agents but not these: as programs and as DSOs.
build() { # file source [option ...]
	bin=$dir/$1
	src=/var/lib/pcp/pmdas/$2
	shift 2
	if [ -x "$bin" ] && [ ! "$src" -nt "$bin" ]; then return; fi
	say "building $bin"
	mkdir -p "$dir"
	# Test packages that run side by side may build at the same time.
	tmp=$(mktemp "$bin.XXXXXX")
	"${CC:-cc}" -O2 -w "$@" -o "$tmp" "$src" -lpcp_pmda -lpcp || { rm -f "$tmp"; die "cannot build $bin"; }
	chmod 755 "$tmp"
	mv -f "$tmp" "$bin"
}
build pmdasimple simple/simple.c
build pmda_simple.so simple/simple.c -shared -fPIC
build pmdatrivial trivial/trivial.c
build pmda_trivial.so trivial/trivial.c -shared -fPIC
build pmdatxmon txmon/txmon.c
build txrecord txmon/txrecord.c

# PCP 6.3.8 has a root directory of its own.
"$(dirname "$0")/peers-root.sh" trixie
if [ -n "$release" ]; then
	"$(dirname "$0")/peers-root.sh" trixie systemd
	"$(dirname "$0")/peers-root.sh" bookworm sysvinit
fi

say "ready: $(dpkg-query -W -f '${Package} ${Version}' pcp)"
