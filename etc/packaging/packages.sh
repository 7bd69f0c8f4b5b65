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

version=$(etc/packaging/version.sh "$version")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

nfpm=$(etc/packaging/nfpm.sh)

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
# with a semicolon between two. Files of this package were in versions of a package that
# breaks names, which is for a deb only.
package() {
	root=$work/$kind/$1
	etc/packaging/files.sh "$kind" "$1" "$bin" "$root"
	case $kind in
	deb)
		{
			printf '%s (%s) unstable; urgency=medium\n\n' "$1" "$version"
			printf '  * The changes of each version are in CHANGELOG.md.gz.\n\n -- %s  %s\n' "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
		} | gzip -9n >"$root/usr/share/doc/$1/changelog.gz"
		;;
	esac
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
		[ -z "$breaks" ] || list replaces "$breaks"
		echo 'contents:'
		find "$root" -type f -printf '- {src: "%p", dst: "/%P", file_info: {mode: 0%m}}\n' \
			-o -type l -printf '- {src: "%l", dst: "/%P", type: symlink, file_info: {mode: 0777}}\n' | sort
		scripts=
		for s in preinst:preinstall postinst:postinstall prerm:preremove postrm:postremove; do
			file=etc/packaging/scripts/$1.$kind.${s%:*}
			[ ! -e "$file" ] || scripts="$scripts  ${s#*:}: $file
"
		done
		[ -z "$scripts" ] || printf 'scripts:\n%s' "$scripts"
		printf 'deb:\n  compression: %s\n' "${COMPRESSION:-xz}"
		[ -z "$breaks" ] || printf '  breaks: ["%s"]\n' "$breaks"
		printf 'rpm:\n  compression: %s\n  buildhost: localhost\n  summary: "%s"\n' "${COMPRESSION:-xz}" "$2"
	} >"$work/$kind/$1.yaml"
	"$nfpm" pkg -f "$work/$kind/$1.yaml" -p "$kind" -t "$out/" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "nfpm failed for $1"; }
	# It prints the name of the file in a form of its own.
	sed -n 's/^created package: /packages: /p' "$work/log"
}

about='pmcd answers clients of Performance Co-Pilot (PCP) with the metrics of this
host: it asks agents, and has those for the kernel built in.'

for kind in ${KINDS:-deb rpm}; do
	case $kind in
	deb)
		libc='libc6 (>= 2.28)'
		scripted=
		sasl='libsasl2-2;libsasl2-modules'
		build="pmcd-build (= $version)"
		older='' split="pmcd-plugins (<< $version)"
		;;
	rpm)
		libc='libc.so.6(GLIBC_2.28)(64bit)'
		scripted=';/bin/sh;systemd'
		sasl='cyrus-sasl-lib'
		build="pmcd-build = $version"
		older="pmcd-plugins < $version" split=''
		;;
	esac
	breaks=
	depends=$libc$scripted recommends=$sasl conflicts='pcp;pmcd-swap' provides=$build
	package pmcd 'collector daemon of Performance Co-Pilot, in Go' "$about
This package is for hosts without PCP's own daemon. Its service listens on the
loopback addresses, and needs no configuration."
	depends="$libc$scripted;pcp" recommends=$sasl conflicts=pmcd provides=$build
	package pmcd-swap 'collector daemon in Go in the place of the one of PCP' "$about
This package has PCP's units and scripts start this pmcd instead of that of
package pcp, with the same configuration and agents. Its removal puts PCP's
pmcd back."
	depends="$libc;$build" recommends=pmcd-openmetrics conflicts='' provides=''
	package pmcd-plugins 'built-in agents of pmcd as programs, and plugins' "These are the agents that are built into pmcd, as programs for a pipe line of
pmcd.conf, which any pmcd starts, and four of them as Go plugins for a dso
line, which only pmcd of the same build loads."
	depends=$libc$scripted recommends='' conflicts='' provides=''
	package pmcd-prometheus 'exporter for Prometheus of the metrics of pmcd' "pmcd-prometheus serves the metrics of a pmcd, in Go or of PCP, to Prometheus,
with the names and labels that pmproxy gives them. Its service is off until it
is enabled."
	depends=$libc recommends='' conflicts=$older provides='' breaks=$split
	package pmcd-openmetrics 'agent of pmcd for Prometheus exporters' "pmdaopenmetrics has the metrics of Prometheus exporters, as the agent of PCP in
Python has them. It is a program for a pipe line of pmcd.conf, which any pmcd
starts."
done
