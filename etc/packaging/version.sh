#!/bin/sh
# version.sh - print the version that "make release" gives to what it builds.
#
# usage: etc/packaging/version.sh            that of this commit
# usage: etc/packaging/version.sh VERSION    that of the packages of VERSION
#
# That of a commit is the tag of this commit without its v, or else the next release with the
# commit, as pmcd --version has it. A tag must be the version of the sources and have a
# section in CHANGELOG.md, and the checkout must be clean.
set -eu
cd "$(dirname "$0")/../.."

# A build between two releases is older than the next release, and later ones are newer.
if [ $# -eq 1 ]; then
	case $1 in
	*+git.*) echo "${1%%+git.*}~git$(date -u -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" +%Y%m%d%H%M%S).${1##*+git.}" ;;
	*) echo "$1" ;;
	esac
	exit 0
fi

die() { printf 'version: %s\n' "$*" >&2; exit 1; }

[ -z "$(git status --porcelain)" ] || die "the checkout has changes: commit them, or give VERSION"
release=$(sed -n 's/^const release = "\(.*\)"$/\1/p' cmd/pmcd/internal/version/version.go)
[ -n "$release" ] || die "version.go has no release"
tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null) || {
	echo "$release+git.$(git rev-parse --short=12 HEAD)"
	exit 0
}
[ "$tag" = "v$release" ] || die "the tag is $tag, and version.go has $release"
grep -qF "## [$release]" CHANGELOG.md || die "CHANGELOG.md has no section [$release]"
echo "$release"
