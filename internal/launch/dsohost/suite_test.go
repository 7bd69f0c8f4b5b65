package dsohost_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/dsohost"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// metricsOf returns the metrics in the name space file of a PMDA, and others.
func metricsOf(t *testing.T, name string, domain int, others ...pdu.PMID) (ids []pdu.PMID) {
	t.Helper()
	text, err := os.ReadFile(pmdas + name + "/pmns")
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAll(text, nil)
	for _, m := range regexp.MustCompile(strings.ToUpper(name)+`:(\d+):(\d+)`).FindAllSubmatch(text, -1) {
		id, err := pdu.ParsePMID(fmt.Sprintf("%d.%s.%s", domain, m[1], m[2]))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return append(ids, others...)
}

// compiled builds a PMDA of PCP from its source: Debian has no binaries of some.
func compiled(t *testing.T, name string, flags ...string) string {
	t.Helper()
	testutil.NeedPeer(t, "/usr/include/pcp/pmda.h")
	out := filepath.Join(t.TempDir(), "pmda"+name)
	args := append(flags, "-w", "-o", out, pmdas+name+"/"+name+".c", "-lpcp_pmda", "-lpcp")
	if text, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// PCP's demonstration agents, as shared objects and as programs, pass the suite of
// agents.
func TestPeerSuite(t *testing.T) {
	// Agents write files there.
	t.Setenv("PCP_VAR_DIR", t.TempDir())
	sample := func(cluster, item int) pdu.PMID { return pdu.NewPMID(29, cluster, item) }
	var secret []pdu.PMID // metrics that are not in the name space file
	for item := range 8 {
		secret = append(secret, sample(0, 1000+item))
	}
	// excluded has the metrics of pmdasample that do not pass the suite, and why.
	excluded := map[pdu.PMID]string{
		sample(0, 51):  "values for instances that are not in its domain",
		sample(0, 54):  "no descriptor",
		sample(0, 121): "instances come and go",
		sample(0, 156): "instances come and go",
		sample(0, 157): "instances come and go",
		sample(0, 158): "instances come and go",
	}
	for _, tt := range []struct {
		name    string
		domain  int
		program string // "" is compiled from source
		object  string
		others  []pdu.PMID
	}{
		{"trivial", 250, "", "", nil},
		{"simple", 253, "", "", nil},
		{"sample", 29, pmdas + "sample/pmdasample", pmdas + "sample/pmda_sample.so", secret},
	} {
		for _, hosted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s hosted %v", tt.name, hosted), func(t *testing.T) {
				testutil.NeedPeer(t, pmdas+tt.name+"/pmns")
				ids := slices.DeleteFunc(metricsOf(t, tt.name, tt.domain, tt.others...), func(id pdu.PMID) bool { return excluded[id] != "" })
				if hosted {
					path := tt.object
					if path == "" {
						path = compiled(t, tt.name, "-shared", "-fPIC")
					}
					c, _ := start(t, dsohost.DSO{Name: tt.name, Domain: tt.domain, Entry: tt.name + "_init", Path: path}).dial(t)
					transporttest.Test(t, c, ids...)
					return
				}
				path := tt.program
				if path == "" {
					path = compiled(t, tt.name)
				}
				testutil.NeedRoot(t) // a PMDA ends if it cannot change its user
				argv := []string{path, "-d", fmt.Sprint(tt.domain), "-l", filepath.Join(t.TempDir(), "log"), "-U", "root"}
				p, err := child.Start(child.Spec{Argv: argv, Pipes: true, Stderr: os.Stderr})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { stop(p) })
				c, err := wire.Dial(t.Context(), p.Pipes, wire.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				transporttest.Test(t, c, ids...)
			})
		}
	}
}
