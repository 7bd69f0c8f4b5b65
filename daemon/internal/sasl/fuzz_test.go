package sasl_test

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/internal/saslhelper"
	"github.com/gopcp/pmcd/internal/testutil"
)

// FuzzLogin sends packets to the process of a login: messages of a client, and after a '!'
// what pmcd would never send. The process must answer or end, and not crash.
func FuzzLogin(f *testing.F) {
	testutil.NeedPeer(f, "saslpasswd2") // and with it libsasl2
	needHelper(f)
	for _, s := range []string{
		"PLAIN\x00\x00alice\x00wrong",
		"LOGIN\nalice\nwrong",
		"SCRAM-SHA-256\x00n,,n=alice,r=abc\nc=biws,r=abc,p=AAAA",
		"DIGEST-MD5\x00\nusername=\"a\",nonce=\"b\",cnonce=\"c\",nc=00000001,qop=auth,digest-uri=\"d\",response=e",
		"CRAM-MD5\nalice 0123456789abcdef0123456789abcdef",
		"NTLM\x00NTLMSSP\x00\x01\x00\x00\x00\x00\x00\x00\x00",
		"ANONYMOUS\x00a@b",
		"!X\nPLAIN", "!D", "!S\x00\x00", "",
	} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	if err := os.WriteFile(dir+"/pmcd.conf", []byte("sasldb_path: "+dir+"/none\n"), 0o644); err != nil {
		f.Fatal(err)
	}
	log, lines := logtest.NewLog()
	h := sasl.New(sasl.Options{Log: diag.NewLogLimiter(log), Start: func(sock *os.File, probe bool) (sasl.Process, error) {
		return saslhelper.Start(saslhelper.Options{Env: []string{"SASL_CONF_PATH=" + dir}}, sock, probe)
	}})
	f.Cleanup(h.Close)
	f.Fuzz(func(t *testing.T, input []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
		defer cancel()
		e, _, err := h.Begin(ctx, sasl.Login{})
		if err != nil {
			t.Fatalf("the helper is out of order: %v\n%+v", err, lines.TakeAll())
		}
		defer e.Close()
		for packet := range bytes.SplitSeq(input, []byte("\n")) {
			if raw, ok := bytes.CutPrefix(packet, []byte("!")); ok && len(raw) > 0 {
				e.SendRaw(raw)
				err = e.Await(ctx)
			} else if len(packet) <= sasl.MaxPayload {
				err = e.StepNow(ctx, packet)
			}
			if err != nil {
				break
			}
		}
		if ctx.Err() != nil {
			t.Errorf("%q is not answered", input)
		}
		for _, l := range lines.TakeAll() {
			if l.Fields["text"] != nil && bytes.Contains([]byte(l.Message), []byte("ended by signal")) {
				t.Errorf("%q: %s", input, l.Message)
			}
		}
	})
}
