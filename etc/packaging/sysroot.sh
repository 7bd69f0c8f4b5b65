#!/bin/sh
# sysroot.sh - get the C library that releases are linked with.
#
# usage: etc/packaging/sysroot.sh ARCH       amd64 or arm64
#
# Prints the directory with glibc 2.31 and its headers, from Debian 11. A program
# that is linked with this release runs with it and with all later ones. The packages
# are unpacked, not installed, so this needs no root. The directory is
# PMCD_SYSROOTS/ARCH; PMCD_SYSROOTS is ~/.cache/pmcd-sysroots by default.
set -eu

arch=${1:?architecture}
base=${PMCD_SYSROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/pmcd-sysroots}
root=$base/$arch
[ ! -e "$root" ] || { echo "$root"; exit 0; }

die() { printf 'sysroot: %s\n' "$*" >&2; exit 1; }
command -v apt-get >/dev/null || die "not a Debian machine: make $root by hand"
mkdir -p "$base"
new=$(mktemp -d "$base/$arch.XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 1' HUP INT TERM

# The mirror of this host's own release has the others, too.
# shellcheck disable=SC1091 # each host has its own
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
# shellcheck disable=SC2016 # apt-get expands it
url=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "Codename: $codename" | head -n 1)
mkdir -p "$new/apt/lists/partial" "$new/apt/cache/archives/partial" "$new/root"
: >"$new/apt/status"
echo "deb [arch=$arch signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${url:?no Debian mirror in the configuration of apt} bullseye main" >"$new/apt/sources.list"
apt() {
	apt-get -qq -o "Dir::Etc::sourcelist=$new/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State=$new/apt" \
		-o "Dir::State::lists=$new/apt/lists" -o "Dir::State::status=$new/apt/status" -o "Dir::Cache=$new/apt/cache" \
		-o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" -o APT::Sandbox::User=root -o Acquire::Retries=3 "$@"
}
apt update >&2
(cd "$new/apt" && apt download libc6 libc6-dev linux-libc-dev libcrypt-dev libcrypt1) >&2
for deb in "$new"/apt/*.deb; do dpkg-deb -x "$deb" "$new/root"; done
# A linker would follow an absolute link to the host's own library.
find "$new/root" -type l -lname '/*' | while read -r link; do
	ln -sfnr "$new/root$(readlink "$link")" "$link"
done
mv -T "$new/root" "$root"
echo "$root"
