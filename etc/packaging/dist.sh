#!/bin/sh
# dist.sh - make the source archive: the files of a commit with the modules in vendor, a
# debian directory and a spec file. All packages are built from it without a network.
#
# usage: etc/packaging/dist.sh VERSION OUT     makes OUT/pmcd-VERSION.tar.gz, and OUT/SHA256SUMS
#
# Between two releases, the version in the archive and of its file is that of the packages.
# The same commit and VERSION give the same bytes.
set -eu

[ $# -eq 2 ] || { echo "usage: etc/packaging/dist.sh VERSION OUT" >&2; exit 2; }
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/../.."
umask 022
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH="$epoch" LC_ALL=C TZ=UTC GOFLAGS='' GOWORK=off
version=$(etc/packaging/version.sh "$1")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
top=$work/pmcd-$version
mkdir "$top"
git archive HEAD | tar -C "$top" -xf -
(cd "$top" && go mod vendor)
cp -R "$top/etc/packaging/debian" "$top/debian"
cp "$top/etc/packaging/copyright" "$top/debian/copyright"
mkdir "$top/debian/source"
echo '3.0 (quilt)' >"$top/debian/source/format"
maintainer=$(sed -n 's/^Maintainer: //p' "$top/debian/control")
{
	printf 'pmcd (%s-1) unstable; urgency=medium\n\n' "$version"
	printf '  * The changes of each version are in CHANGELOG.md.\n\n -- %s  %s\n' "$maintainer" "$(date -u -R -d "@$epoch")"
} >"$top/debian/changelog"
sed "s/@VERSION@/$version/" "$top/etc/packaging/pmcd.spec" >"$top/pmcd.spec"
tar -C "$work" --sort=name --format=gnu --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
	--mode=u=rwX,go=rX -cf - "pmcd-$version" | gzip -9n >"$out/pmcd-$version.tar.gz"
echo "dist: pmcd-$version.tar.gz"
etc/packaging/sums.sh "$1" "$out"
