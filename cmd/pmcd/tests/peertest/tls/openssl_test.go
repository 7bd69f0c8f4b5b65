package tls

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// An openssl is the program "openssl s_client" in a connection to a pmcd. It sends what it
// reads, but for lines with one letter: K and k update the keys of TLS 1.3, with and without
// those of the other side, and R negotiates again in TLS 1.2.
type openssl struct {
	t     *testing.T
	stdin io.WriteCloser
	ended chan struct{}

	mu  sync.Mutex // guards out
	out []byte     // what it has received, and its messages
}

// startOpenssl starts the program. It cannot ask pmcd for TLS, so the test does, and copies
// between two connections.
func startOpenssl(t *testing.T, d *peer.Daemon, args ...string) *openssl {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := prelude(t, d)
	o := &openssl{t: t, ended: make(chan struct{})}
	cmd := exec.Command("openssl", append([]string{"s_client", "-connect", l.Addr().String()}, args...)...)
	cmd.Stdout, cmd.Stderr = o, o
	if o.stdin, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		testutil.Missing(t, err)
	}
	client, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var copies sync.WaitGroup
	copies.Go(func() { io.Copy(server, client); server.Close(); client.Close() })
	copies.Go(func() { io.Copy(client, server); server.Close(); client.Close() })
	go func() {
		cmd.Wait()
		close(o.ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-o.ended
		copies.Wait()
	})
	o.await(1, "Verify return code:")
	return o
}

// Write takes what the program writes.
func (o *openssl) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.out = append(o.out, b...)
	return len(b), nil
}

// count returns how often the program has written text.
func (o *openssl) count(text string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Count(o.out, []byte(text))
}

// text returns what the program has written.
func (o *openssl) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.out)
}

// await waits until the program has written text so often. It reports false if the program
// has ended before.
func (o *openssl) await(times int, text string) bool {
	o.t.Helper()
	over := false
	testutil.Eventually(o.t, text, func() bool {
		select {
		case <-o.ended:
			over = true
		default:
		}
		return over || o.count(text) >= times
	})
	return o.count(text) >= times
}

// command gives a command, and waits for its message.
func (o *openssl) command(letter, message string) bool {
	o.t.Helper()
	n := o.count(message)
	io.WriteString(o.stdin, letter+"\n")
	return o.await(n+1, message)
}

// ask sends a request, and waits for the answer.
func (o *openssl) ask() bool {
	o.t.Helper()
	b, err := pdu.Append(nil, 7, &pdu.DescReq{PMID: pdu.NewPMID(peer.DomainPmcd, 0, 2)})
	if err != nil {
		o.t.Fatal(err)
	}
	answer := string(binary.BigEndian.AppendUint32(nil, uint32(pdu.TypeDesc)))
	n := o.count(answer)
	o.stdin.Write(b)
	return o.await(n+1, answer)
}

// served fails the test unless d serves another client.
func served(t *testing.T, d *peer.Daemon) {
	t.Helper()
	o, err := d.Run(t.Context(), peer.TCP4, shell("pminfo -f -h pcps://127.0.0.1:{port} hinv.ncpu"))
	if err != nil || !strings.Contains(o.Stdout, "value") {
		t.Errorf("%s: another client: %v\n%v", d.Path, err, o)
	}
}

// TestKeyUpdates has OpenSSL update the keys of a connection. Ours ends one that does nothing
// else. C pmcd does not.
func TestKeyUpdates(t *testing.T) {
	p := start(t, newAuthority(t))
	for _, d := range []*peer.Daemon{p.C, p.Ours} {
		o := startOpenssl(t, d, "-tls1_3")
		for _, letters := range []string{"k", "K", "kk", "KK", "kKkK", "KKKKKKKK"} {
			for _, letter := range letters {
				o.command(string(letter), "KEYUPDATE")
			}
			if !o.ask() {
				t.Fatalf("%s: no answer after %s:\n%s", d.Path, letters, o.text())
			}
		}
		if d == p.C {
			continue
		}
		const flood = 1000
		for range flood {
			if !o.command("K", "KEYUPDATE") {
				break
			}
		}
		if n := o.count("KEYUPDATE"); n >= flood || o.count("SSL alert number 10") == 0 {
			t.Errorf("%d updates without a request:\n%s", n, o.text())
		}
		served(t, d)
	}
}

// TestRenegotiation has OpenSSL negotiate again, which both refuse. C pmcd's alert is
// no_renegotiation, with which OpenSSL ends the connection, too.
func TestRenegotiation(t *testing.T) {
	p := start(t, newAuthority(t))
	for _, d := range []*peer.Daemon{p.C, p.Ours} {
		o := startOpenssl(t, d, "-tls1_2")
		if !o.ask() {
			t.Fatalf("%s: no answer:\n%s", d.Path, o.text())
		}
		o.command("R", "RENEGOTIATING")
		if o.ask() {
			t.Errorf("%s: an answer after it:\n%s", d.Path, o.text())
		}
		why := "no renegotiation"
		if d == p.Ours {
			why = "SSL alert number 10" // unexpected_message
		}
		if o.count(why) == 0 {
			t.Errorf("%s: no %q:\n%s", d.Path, why, o.text())
		}
		served(t, d)
	}
}
