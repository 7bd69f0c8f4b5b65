#!/bin/sh
# sums.sh - write the checksums of what has been built.
#
# usage: etc/packaging/sums.sh VERSION OUT     makes OUT/SHA256SUMS
#
# It has all files of VERSION that are in OUT: archives, packages, list of modules, and the
# source archive. SOURCE_DATE_EPOCH is the time of the files.
set -eu

[ $# -eq 2 ] || { echo "usage: etc/packaging/sums.sh VERSION OUT" >&2; exit 2; }
version=$1
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/../.."
export LC_ALL=C
packages=$(etc/packaging/version.sh "$version")

# Not of another one that begins with the same text.
cd "$out"
find . -maxdepth 1 -type f \( -name "*[-_]${version}[-_.]*" -o -name "*[-_]${packages}[-_.]*" \) -printf '%f\n' |
	sort | xargs -r sha256sum -- >SHA256SUMS.new
[ -s SHA256SUMS.new ] || { rm SHA256SUMS.new; echo "sums.sh: $out has nothing of version $version" >&2; exit 1; }
mv SHA256SUMS.new SHA256SUMS
