#!/bin/sh
# files.sh - put the files of a package into a directory.
#
# usage: etc/packaging/files.sh KIND PACKAGE BIN ROOT
#
# KIND is deb or rpm, PACKAGE its name, BIN a directory as "make build plugins pmdas"
# makes it, and ROOT the root directory of the package. packages.sh runs it, and so do
# the debian directory and the spec file of the source archive.
set -eu

[ $# -eq 4 ] || { echo "usage: etc/packaging/files.sh KIND PACKAGE BIN ROOT" >&2; exit 2; }
kind=$1
name=$2
bin=$(cd "$3" && pwd)
mkdir -p "$4"
root=$(cd "$4" && pwd)
cd "$(dirname "$0")/../.."
umask 022

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

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

# fill_NAME puts in the files of package NAME.
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
	deb) new=/usr/lib/pcp/bin/pmcd ;; # diverted: see pmcd-swap.preinst
	rpm)
		new=/usr/libexec/pcp/pmcd
		put 644 etc/packaging/selinux/pmcd-go.te /usr/share/pmcd/selinux/pmcd-go.te
		put 644 etc/packaging/scripts/pmcd-swap.conf /usr/lib/systemd/system/pmcd.service.d/pmcd-swap.conf
		;;
	esac
	put 755 "$bin/pmcd" "$new"
	# Relative, for a package that is only unpacked, for a trial.
	sed "s|^new=.*|new=\$(dirname \"\$self\")/..${new#/usr}|" etc/swap-pmcd.sh >"$work/swap-pmcd"
	put 755 "$work/swap-pmcd" /usr/sbin/swap-pmcd
	page docs/swap-pmcd.8 swap-pmcd.8
}

fill_pmcd_plugins() {
	for f in "$bin"/plugins/*.so; do put 644 "$f" "/usr/libexec/pcp/plugins/${f##*/}"; done
	put 755 "$bin/pmdas/pmdas" /usr/libexec/pcp/pmdas/pmdas
	for f in "$bin"/pmdas/*; do [ ! -L "$f" ] || ln -s pmdas "$root/usr/libexec/pcp/pmdas/${f##*/}"; done
}

fill_pmcd_openmetrics() { put 755 "$bin/pmdas/pmdaopenmetrics" /usr/libexec/pcp/pmdas/pmdaopenmetrics; }

fill_pmcd_prometheus() {
	put 755 "$bin/pmcd-prometheus" /usr/bin/pmcd-prometheus
	page docs/pmcd-prometheus.1 pmcd-prometheus.1
	sed 's|@EXPORTER@|/usr/bin/pmcd-prometheus|' systemd/pmcd-prometheus.service >"$work/pmcd-prometheus.service"
	put 644 "$work/pmcd-prometheus.service" /usr/lib/systemd/system/pmcd-prometheus.service
	put 644 etc/packaging/firewalld/pmcd-prometheus.xml /usr/lib/firewalld/services/pmcd-prometheus.xml
}

# The licences of what is linked, and what has changed.
put 644 CHANGELOG.md "/usr/share/doc/$name/CHANGELOG.md"
case $kind in
deb)
	gzip -9n "$root/usr/share/doc/$name/CHANGELOG.md"
	put 644 etc/packaging/copyright "/usr/share/doc/$name/copyright"
	! [ -e "etc/packaging/scripts/$name.lintian" ] || put 644 "etc/packaging/scripts/$name.lintian" "/usr/share/lintian/overrides/$name"
	;;
rpm) put 644 etc/packaging/copyright "/usr/share/licenses/$name/copyright" ;;
esac
"fill_$(echo "$name" | tr - _)"
find "$root" -depth -type d -empty -delete
