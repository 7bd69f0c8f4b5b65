#!/bin/sh
# root.sh - make the root directory of the image from static programs.
#
# usage: etc/packaging/image/root.sh BIN OUT
#
# BIN has pmcd, pmcdctl and pmcd-prometheus, built without cgo; OUT must not exist.
set -eu
umask 022
bin=$1
out=$2
mkdir "$out"
install -D -m 755 "$bin/pmcd" "$out/usr/bin/pmcd"
install -m 755 "$bin/pmcdctl" "$bin/pmcd-prometheus" "$out/usr/bin"
mkdir -p "$out/etc" "$out/run/pcp" "$out/host" "$out/proc" "$out/sys" "$out/dev"
mkdir -m 1777 "$out/tmp"
printf 'root:x:0:0:root:/:/sbin/nologin\npcp:x:65532:65532:Performance Co-Pilot:/:/sbin/nologin\n' >"$out/etc/passwd"
printf 'root:x:0:\npcp:x:65532:\n' >"$out/etc/group"
