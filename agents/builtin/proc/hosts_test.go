package proc

import (
	"testing"

	"github.com/gopcp/pmcd/agents/linuxhosts"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// Some values of a composed host. peertest compares all of them with those of
// pmdaproc.
func TestHosts(t *testing.T) {
	r := newHarness(t, Options{Root: pmdatest.Tree(t, linuxhosts.Processes(linuxhosts.Linux6_12, 2))})
	r.Want(map[string]string{
		"proc.psinfo.cmd":     "1=systemd 2=kthreadd 17=kworker/u512:0+flush-259:0 40=) S 1 ( 41=new\nline x 42=((sd-pam)) 43= 44=gone 4000=Main Thread 4194303=nginx",
		"proc.psinfo.sname":   "1=S 2=S 17=I 40=R 41=D 42=S 43=S 44=Z 4000=S 4194303=S",
		"proc.psinfo.nice":    "1=0 2=0 17=0 40=-5 41=-5 42=-5 43=-5 44=0 4000=0 4194303=-5",
		"proc.psinfo.exe":     "1=/usr/lib/systemd/systemd 2= 17= 40=/usr/bin/) S 1 ( 41=/tmp/new\nline (deleted) 42=/usr/lib/systemd/systemd 43=/memfd:x (deleted) 44= 4000=/usr/bin/java 4194303=/usr/sbin/nginx",
		"proc.smaps.rss":      "1=8589934593 40=8589934632 41=8589934633 42=8589934634 43=8589934635 4000=8589938592 4194303=8594128895",
		"proc.namespaces.pid": "1=1 2=2 17=17 40=40 41=41 42=42 43=43 44=44 4000=4000 4194303=4194303,1",
	})
}
