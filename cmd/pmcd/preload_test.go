package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
)

// While pmdaroot starts, the root helper starts the host of a shared object. The host loads
// the object as root, and calls its entry function when pmdaroot is ready. If pmcd ends first,
// the host ends, too.
func TestPeerPreload(t *testing.T) {
	for _, ends := range []bool{false, true} {
		name := map[bool]string{false: "pmdaroot starts", true: "pmcd ends"}[ends]
		t.Run(name, func(t *testing.T) { testPreload(t, ends) })
	}
}

func testPreload(t *testing.T, ends bool) {
	p := privilegedPlace(t)
	simple, err := peer.SimplePMDA()
	if err != nil {
		t.Fatal(err)
	}
	testutil.NeedPeer(t, "/usr/include/pcp/pmda.h")
	object := p.At("pmda_odd.so")
	cmd := exec.Command("cc", "-shared", "-fPIC", "-o", object, "../../agents/launch/dsohost/testdata/odd.c", "-lpcp_pmda", "-lpcp")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// In place of pmdaroot there is an agent that starts when the test writes to a FIFO.
	p.Write("root", "#!/bin/sh\nread line <"+p.At("fifo")+"\nexec "+simple+" -d 1 -l "+p.At("log/root.log")+"\n")
	if err := os.Chmod(p.At("root"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(p.At("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Write("conf", "root 1 pipe binary "+p.At("root")+"\nodd 250 dso who_init "+object+"\n")
	p.Write("pmns", "root { odd }\nodd { fetches 250:0:0 }\n")
	p.start()

	log := func() string { return pmcdtest.Read(p.At("log/pmcd.log")) }
	testutil.Eventually(t, "the object is loaded", func() bool { return strings.Contains(log(), "odd: loaded\n") })
	before := p.agent("pmcd-dso: odd")
	if before == 0 {
		t.Fatalf("the root helper has no host: %v", pmcdtest.Children(p.root))
	}
	if text := log(); strings.Contains(text, "odd: init") {
		t.Error("the entry function was called before pmdaroot was ready")
	}
	if ends {
		if err := syscall.Kill(p.pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		pmcdtest.AwaitEnd(t, p.pid)
		pmcdtest.AwaitEnd(t, before)
		if text := log(); strings.Contains(text, "odd: init") || !strings.Contains(text, "pmcd Shutdown") {
			t.Error("pmcd has not ended as it should")
		}
		return
	}

	if err := os.WriteFile(p.At("fifo"), []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	p.answers("odd.fetches", true)
	if after := p.agent("pmcd-dso: odd"); after != before {
		t.Errorf("the host is process %d, and %d has loaded the object", after, before)
	}
	if ids := pmcdtest.IDs(before); ids != p.user {
		t.Errorf("the host is %q, want %q", ids, p.user)
	}
	p.logs("odd: init as 0:0\n")
}
