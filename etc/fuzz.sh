#!/bin/sh
# fuzz.sh - run each fuzz target of the module for a time.
#
# usage: etc/fuzz.sh TIME        as in go test -fuzztime
#
# go test fuzzes one target of one package a run, and builds the package anew
# with coverage counters for it; packages without targets are left alone.
set -eu

go=${GO:-go}
time=$1
out=$(mktemp)
trap 'rm -f "$out"' EXIT
trap 'exit 1' HUP INT TERM

run() { # package target
	"$go" test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 100x "$1" >"$out" 2>&1
}

n=0
failed=
for dir in $("$go" list -f '{{.Dir}}' ./...); do
	grep -qs '^func Fuzz' "$dir"/*_test.go || continue
	for target in $(cd "$dir" && "$go" test -list '^Fuzz' . | grep '^Fuzz'); do
		n=$((n + 1))
		printf '%s %s ... ' "${dir##"$PWD"/}" "$target"
		tries=1
		while :; do
			if run "$dir" "$target"; then
				echo "ok$([ $tries = 1 ] || echo ", run $tries")"
			# The end of the time can reach a worker in the middle of an input,
			# and go test then calls that a failure: in one of eight runs of some
			# targets. A real one has an input.
			elif [ $tries -lt 5 ] && grep -q 'context deadline exceeded' "$out" && ! grep -q 'Failing input' "$out"; then
				tries=$((tries + 1))
				continue
			else
				echo FAILED
				cat "$out"
				failed="$failed $target"
			fi
			break
		done
	done
done
[ $n -gt 0 ] || { echo 'no fuzz targets found' >&2; exit 1; }
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
echo "$n targets, $time each: no finding"
