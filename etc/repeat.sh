#!/bin/sh
# repeat.sh - run the tests with PCP's programs again and again for a time.
#
# usage: etc/repeat.sh TIME    seconds, or with a suffix: 90s, 30m, 8h
#
# What happens once in a thousand runs shows here: a race, an agent or a
# descriptor that is left behind, an answer that comes too late. Stops at the
# first failure and keeps its output.
set -eu

go=${GO:-go}
case $1 in
*h) secs=$((${1%h} * 3600)) ;;
*m) secs=$((${1%m} * 60)) ;;
*) secs=${1%s} ;;
esac

dir=$(mktemp -d)
export PMCD_REQUIRE_PEERS=1 PMCD_REPEAT=1 GORACE=atexit_sleep_ms=0
pkg=./cmd/pmcd/peertest
"$go" test -race -c -o "$dir/peertest" $pkg
# One build for all runs: each would make its own otherwise.
"$go" build -race -buildvcs=false -o "$dir/pmcd" ./cmd/pmcd
end=$(($(date +%s) + secs))
n=0
while [ "$(date +%s)" -lt $end ]; do
	n=$((n + 1))
	if ! (cd $pkg && PMCD_UNDER_TEST=$dir/pmcd "$dir/peertest" -test.timeout 15m >"$dir/out" 2>&1); then
		cat "$dir/out"
		echo "run $n failed; output kept in $dir/out" >&2
		exit 1
	fi
	echo "run $n: ok, $((end - $(date +%s))) s left"
done
rm -rf "$dir"
