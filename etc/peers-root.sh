#!/bin/sh
# peers-root.sh - make a Debian root directory with another release of PCP.
#
# usage: etc/peers-root.sh RELEASE [servers|systemd|sysvinit]
#
# RELEASE is trixie (PCP 6.3.8) or bookworm (PCP 6.0.3). With "servers" the root
# has databases, web servers and so on as well, which agents report about. With
# "systemd" it can be booted.
#
# The root is PMCD_PEER_ROOTS/RELEASE, or with a hyphen and the second argument
# after that; PMCD_PEER_ROOTS is /var/cache/pmcd-peers by default, where all work trees find
# it. Tests mount an overlay on it and do not change it. A root that is complete
# is left alone. The packages come from the mirror that this host uses.
set -eu

release=${1:?release}
more=${2:-}
base=${PMCD_PEER_ROOTS:-/var/cache/pmcd-peers}
root=$base/$release${more:+-$more}

# What PCP's agents and clients need besides PCP, and what logins need.
packages='pcp pcp-conf python3-pcp libpcp-pmda-perl libpcp-mmv-perl procps iproute2
	libdbi-perl libjson-perl libwww-perl libdate-manip-perl
	python3-requests python3-json-pointer python3-six
	libsasl2-modules libsasl2-modules-db sasl2-bin'
servers='libdbd-mysql-perl libdbd-pg-perl libnet-ldap-perl libnet-snmp-perl python3-psycopg2 python3-pyodbc
	nginx-light apache2 postgresql redis-server memcached mariadb-server bind9 unbound haproxy
	rabbitmq-server postfix rsyslog lm-sensors smartmontools gpsd gpsd-clients
	openvswitch-switch pdns-server pdns-backend-sqlite3 samba podman snmpd snmp slurmctld munge
	libslurm-perl bpftrace iputils-ping'
systemd='systemd dbus make'
sysvinit='sysvinit-core make'

say() { printf 'peers: %s\n' "$*"; }
die() { printf 'peers: %s\n' "$*" >&2; exit 1; }

case $more in
'') extra= ;;
servers) extra=$servers ;;
systemd) extra=$systemd ;;
sysvinit) extra=$sysvinit ;;
*) die "no packages $more" ;;
esac

# The last step writes the list of packages into the root: a root with another
# list is of an older version of this file.
# shellcheck disable=SC2086 # lists of words
want=$(printf '%s\n' $packages $extra)
made() { [ "$(cat "$root/peer" 2>/dev/null)" = "$want" ]; }
! made || exit 0

command -v apt-get >/dev/null || die "not a Debian machine: $root cannot be made"
[ "$(id -u)" = 0 ] || die "run as root once, to make $root"
mkdir -p "$base"
exec 9>"$base/lock"
flock 9
! made || exit 0

# Nothing is started in a root that is not booted.
in_root() { # root command ...
	# shellcheck disable=SC2016 # the new shell expands them
	unshare --mount --pid --fork --propagation private sh -c '
		mount -t proc proc "$0/proc"
		mount -t tmpfs tmpfs "$0/run"
		exec chroot "$0" "$@"' "$@"
}
apt() { # root argument ...
	r=$1
	shift
	in_root "$r" env -i HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 SYSTEMD_OFFLINE=1 \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		apt-get -q -o Acquire::Retries=3 -o APT::Install-Recommends=false \
		-o Dpkg::Options::=--force-unsafe-io -o Dpkg::Use-Pty=false "$@" </dev/null
}

new=$root.new
rm -rf --one-file-system "$new"
say "making $root"
if [ -n "$more" ] && [ -e "$base/$release/peer" ]; then
	cp -a "$base/$release" "$new"
	rm "$new/peer"
else
	if ! command -v debootstrap >/dev/null; then
		apt-get -q -o DPkg::Lock::Timeout=300 update
		apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends debootstrap </dev/null
	fi
	# The mirror of this host's own release has the others, too.
	# shellcheck disable=SC1091 # each host has its own
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	mirror() {
		# shellcheck disable=SC2016 # apt-get expands it
		apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "Codename: $codename" | head -n 1
	}
	url=$(mirror)
	[ -n "$url" ] || { apt-get -q update && url=$(mirror); }
	# What it mounts goes with it, also when it is killed.
	unshare --mount --propagation private debootstrap --variant=minbase --include=iproute2,procps,ca-certificates "$release" "$new" \
		"${url:?no Debian mirror in the configuration of apt}"
	# Proxies and credentials are this host's.
	for f in apt.conf apt.conf.d auth.conf.d; do
		[ ! -e "/etc/apt/$f" ] || cp -a "/etc/apt/$f" "$new/etc/apt/"
	done
	printf '#!/bin/sh\nexit 101\n' >"$new/usr/sbin/policy-rc.d"
	chmod 755 "$new/usr/sbin/policy-rc.d"
fi
cp -L --remove-destination /etc/resolv.conf "$new/etc/resolv.conf"
apt "$new" update
# shellcheck disable=SC2086 # a list of words
apt "$new" install -y $want
# The name space is put together by a start script, which has not run.
in_root "$new" sh -c 'cd /var/lib/pcp/pmns && ./Rebuild -s </dev/null && rm -f .NeedRebuild && [ -s root ]'
rm -rf "$new"/var/lib/apt/lists/* "$new"/var/cache/apt/* "$new"/usr/share/doc "$new"/usr/share/locale
printf '%s\n' "$want" >"$new/peer"
rm -rf "$root"
mv "$new" "$root"
say "ready: $root"
