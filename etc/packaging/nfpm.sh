#!/bin/sh
# nfpm.sh - get the program that makes packages.
#
# usage: etc/packaging/nfpm.sh
#
# Prints the path of nfpm, which is built on first use, below ~/.cache.
set -eu

# Later versions do not build with the release of Go in go.mod.
version=v2.44.1
dir=${XDG_CACHE_HOME:-$HOME/.cache}/pmcd-tools/nfpm-$version
[ -e "$dir/nfpm" ] ||
	env -u CC -u GOARCH -u GOOS CGO_ENABLED=0 GOFLAGS='' GOWORK=off GOBIN="$dir" go install github.com/goreleaser/nfpm/v2/cmd/nfpm@$version
echo "$dir/nfpm"
