#!/bin/sh
# qemutest.sh - run tests as programs for another processor, with qemu-user-static.
#
# usage: etc/qemutest.sh GOARCH QEMU PACKAGE...
#
# The test programs have no race detector, which qemu cannot run, and no cgo.
set -eu

# Tests that are left out: package, test, reason. A test program that starts itself as a
# child cannot do so here: the kernel does not execute it. TestQemuSkips in cmd/pmcd
# looks for these tests.
skip='
agents/builtin/mmv TestUnreadable: a child
internal/wire TestAgent: children
internal/wire TestConcurrent: a child
daemon TestAbsentAddress: a child
daemon/internal/conn TestNonlocalBind: a child
daemon/internal/conn TestUnboundFamily: a child

internal/rawio TestWaitIsInterrupted: /proc has the numbers of system calls of this machine
daemon TestWatch: qemu 7.2 for s390x gives no nanoseconds of modification times
daemon/internal/conn TestZone: qemu 7.2 for s390x gives package net no list of interfaces
daemon/internal/sasl FuzzLogin: libsasl2 needs cgo
'

go=${GO:-go}
export CGO_ENABLED=0 GOARCH="$1" PMCD_REQUIRE_PEERS=1
qemu=$2
shift 2
failed=
# One after the other: the programs are slow, and tests have time limits.
for dir in $("$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' "$@"); do
	package=${dir##"$PWD"/}
	names=$(printf '%s' "$skip" | sed -n "s|^$package \([^ :]*\):.*|\1|p" | paste -sd '|')
	"$go" test -timeout 30m -exec "$qemu" -skip "^(TestPeer.*${names:+|$names})\$" "./$package" || failed="$failed $package"
done
[ -z "$failed" ] || { echo "failed for $GOARCH:$failed" >&2; exit 1; }
