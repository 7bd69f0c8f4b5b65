package pmdatest

import (
	"regexp"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// openmetrics gives the agent of that name scripts to run in place of the
// servers that it comes configured for.
const openmetrics = `cd /var/lib/pcp/pmdas/openmetrics/config.d && rm -f *.url &&
printf '#!/bin/sh\necho "# TYPE number gauge"; echo "number{of=\\"a\\"} 5"; echo "number{of=\\"b\\"} 6"\n' >script.sh && chmod 755 script.sh`

// logger makes the file that the agent of that name reads.
const logger = `echo one >/var/tmp/one.log; chmod 666 /var/tmp/one.log; printf 'one\tn\t/var/tmp/one.log\n' >/var/tmp/logger.conf`

// short are agents whose subject every host has, or that do without it. Those
// of a list are installed one after the other: C, Perl and Python, processes and
// DSOs, with dynamic names, with "not ready", slow to start.
var short = [][]agent{
	{{name: "openmetrics", before: openmetrics, ready: "openmetrics.script.number", anew: `openmetrics\.control\..*`}, {name: "netfilter"}, {name: "mounts"}, {name: "sendmail"}},
	{{name: "sockets", iam: "sockets", anew: `network\.persocket\..*`}, {name: "zswap"}, {name: "logger", before: logger, answers: "1\n/var/tmp/logger.conf\n\n"}, {name: "news"}},
	{{name: "nfsclient"}, {name: "mailq"}, {name: "bpf", root: true}, {name: "cifs", answers: "dso\n", differs: dsoErrors}},
}

// dsoErrors is what C pmcd makes of a DSO that cannot fetch.
var dsoErrors = []*peer.Difference{{
	Key: regexp.MustCompile(`^cifs\..*`), C: "No value(s) available!", Ours: "Error: No such file or directory",
	Why: "the error of a fetch reaches clients, as that of a process does",
}}

// TestPeerShort tries agents that need no server.
func TestPeerShort(t *testing.T) {
	t.Parallel()
	peer.RequireRelease(t, peer.Trixie)
	for _, agents := range short {
		t.Run(agents[0].name, func(t *testing.T) {
			t.Parallel()
			tryAll(t, peer.Trixie, "", "", agents)
		})
	}
}

// TestPeerUnprivileged tries agents of a pmcd that was started as user pcp.
func TestPeerUnprivileged(t *testing.T) {
	peer.RequireRelease(t, peer.Trixie)
	t.Parallel()
	tryAll(t, peer.Trixie, "pcp", "", []agent{{name: "mounts"}, {name: "zswap"}, {name: "netfilter"}})
}
