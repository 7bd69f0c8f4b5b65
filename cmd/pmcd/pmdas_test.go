package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
)

// The lines of pmcd.conf name links to pmdas. The root helper starts as root what a link of root
// names, and each process has the name of its link. pmdalinux keeps the user that it is started as,
// and pmdapmproxy becomes pcp.
func TestPeerLinksToPmdas(t *testing.T) {
	p := privilegedPlace(t)
	for _, name := range []string{"pmdas", "log"} {
		if err := os.MkdirAll(p.At(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	agents := map[string]string{"linux": "root", "pmproxy": "pcp"}
	for name := range agents {
		built, err := peer.PMDA(name)
		if err != nil {
			t.Fatal(err)
		}
		program, err := os.ReadFile(built)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p.At("pmdas/pmdas"), program, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("pmdas", p.At("pmdas/pmda"+name)); err != nil {
			t.Fatal(err)
		}
	}
	p.Write("conf", fmt.Sprintf("pmcd 2 dso pmcd_init /none\nlinux 60 pipe binary %s -d 60 -l %s\npmproxy 4 pipe binary %s -d 4 -l -\n",
		p.At("pmdas/pmdalinux"), p.At("log/linux.log"), p.At("pmdas/pmdapmproxy")))
	p.Write("pmns", "root { pmcd hinv pmproxy 4:*:* }\npmcd { numclients 2:0:3 }\nhinv { ncpu 60:0:32 }\n")
	p.start("PCP_TMP_DIR=" + p.At("log"))
	p.answers("hinv.ncpu", true)
	p.answers("pmproxy.control.files", true)
	for name, user := range agents {
		name = "pmda" + name
		if got := p.rightsOf(name); got != user {
			t.Errorf("%s runs as %s, want %s", name, got, user)
		}
		proc := fmt.Sprintf("/proc/%d/", p.agent(name))
		if comm := pmcdtest.Read(proc + "comm"); comm != name+"\n" {
			t.Errorf("%s is called %q", name, comm)
		}
		if exe, err := os.Readlink(proc + "exe"); err != nil || filepath.Base(exe) != "pmdas" {
			t.Errorf("%s is the program %s, %v", name, exe, err)
		}
	}

	// As root only if the link and the program are root's.
	for _, name := range []string{"pmdas/pmdalinux", "pmdas/pmdas"} {
		for _, c := range []struct {
			owner int
			user  string
		}{{65534, "pcp"}, {0, "root"}} {
			if err := os.Lchown(p.At(name), c.owner, 0); err != nil {
				t.Fatal(err)
			}
			p.kill("pmdalinux")
			p.reload()
			p.runsAs("hinv.ncpu", "pmdalinux", c.user)
		}
		p.logs(p.At(name) + " is writable by user nobody")
	}
}
