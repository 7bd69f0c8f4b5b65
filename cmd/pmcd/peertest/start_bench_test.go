package peertest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
)

// manyNames is the standard name space and 100,000 names more.
func manyNames(b *testing.B) string {
	b.Helper()
	text, err := peer.StandardPMNS()
	if err != nil {
		b.Fatal(err)
	}
	var s strings.Builder
	s.WriteString(strings.Replace(text, "root {", "root {\n\tmany", 1))
	s.WriteString("many {\n")
	for i := range 100 {
		fmt.Fprintf(&s, "\tgroup%d\n", i)
	}
	s.WriteString("}\n")
	for i := range 100 {
		fmt.Fprintf(&s, "many.group%d {\n", i)
		for j := range 1000 {
			fmt.Fprintf(&s, "\tmetric%d\t500:%d:%d\n", j, i, j)
		}
		s.WriteString("}\n")
	}
	return s.String()
}

// benchWatcher connects to a daemon.
func benchWatcher(d *peer.Daemon) (*watcher, error) {
	conn, err := net.Dial("unix", d.Sock)
	if err != nil {
		return nil, err
	}
	w := &watcher{conn: conn, r: pdu.NewReader(conn, 0)}
	if _, err = w.next(); err == nil {
		err = w.send(&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(0)}}, &pdu.Profile{})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return w, nil
}

// benchDaemons runs a benchmark with both daemons, the stock agents and few and
// many names.
func benchDaemons(b *testing.B, run func(b *testing.B, path string, c peer.Config)) {
	peer.Require(b)
	if os.Getenv("PMCD_UNDER_TEST") == "" {
		b.Log("PMCD_UNDER_TEST is not set")
	}
	ours, err := peer.UnderTest()
	if err != nil {
		b.Fatal(err)
	}
	stock, _, err := stockConf()
	if err != nil {
		b.Fatal(err)
	}
	for _, names := range []struct{ size, text string }{{"stock", ""}, {"100000", manyNames(b)}} {
		for _, pmcd := range []struct{ name, path string }{{"C", peer.CPmcd}, {"ours", ours}} {
			b.Run(names.size+"/"+pmcd.name, func(b *testing.B) {
				run(b, pmcd.path, peer.Config{Agents: stock, PMNS: names.text})
			})
		}
	}
}

// BenchmarkStart is the time from the start of pmcd until pmcd.agent.status is 0
// for all agents.
func BenchmarkStart(b *testing.B) {
	benchDaemons(b, func(b *testing.B, path string, c peer.Config) {
		for b.Loop() {
			d, err := peer.Start(path, c)
			if err != nil {
				b.Fatal(err)
			}
			w, err := benchWatcher(d)
			if err != nil {
				b.Fatal(err)
			}
			if !peer.Until(time.Minute, func() bool {
				sets, _, err := w.fetch([]pdu.PMID{pdu.NewPMID(2, 4, 1)}) // pmcd.agent.status
				well := err == nil && len(sets[0].Values) == len(c.Agents)
				for _, v := range sets[0].Values {
					well = well && v.Word == 0
				}
				return well
			}) {
				b.Fatalf("not all agents are there:\n%s", d.Log())
			}
			b.StopTimer()
			w.conn.Close()
			if err := d.Stop(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}

// BenchmarkReload is the time from SIGHUP until a name space that has changed is
// in use. The longest time that another client waits for an answer meanwhile is
// pause-ns.
func BenchmarkReload(b *testing.B) {
	benchDaemons(b, func(b *testing.B, path string, c peer.Config) {
		d := peer.StartT(b, path, c)
		w, err := benchWatcher(d)
		if err != nil {
			b.Fatal(err)
		}
		defer w.conn.Close()
		var pauses time.Duration
		ask := func() (sighups uint32, took time.Duration) {
			began := time.Now()
			sets, _, err := w.fetch([]pdu.PMID{pdu.NewPMID(2, 0, 22), pdu.NewPMID(60, 2, 0)}) // and kernel.all.load
			if err != nil || len(sets[0].Values) != 1 {
				b.Fatalf("%+v, %v", sets, err)
			}
			return sets[0].Values[0].Word, time.Since(began)
		}
		pmns := filepath.Join(d.Dir, "pmns")
		stamp, done := time.Now(), 0
		for b.Loop() {
			b.StopTimer()
			stamp = stamp.Add(time.Second)
			if err := os.Chtimes(pmns, stamp, stamp); err != nil {
				b.Fatal(err)
			}
			before, _ := ask()
			b.StartTimer()
			d.Signal(syscall.SIGHUP)
			done++
			pause := time.Duration(0)
			for over := false; ; {
				now, took := ask()
				pause = max(pause, took)
				if over {
					break
				}
				// C pmcd may count the signal before it reads anything: one more
				// request has to wait.
				over = now != before && strings.Count(d.Log(), "Reloading PMNS") == done
			}
			pauses += pause
		}
		b.ReportMetric(float64(pauses.Nanoseconds())/float64(b.N), "pause-ns")
	})
}
