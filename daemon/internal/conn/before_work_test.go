package conn

import (
	"crypto/tls"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// A session is told before input is decrypted: that has a cost, even if there is no data
// in it. And it is told before the connection waits for more.
func TestBeforeWork(t *testing.T) {
	const data = 23
	eachTLS(t, func(t *testing.T, k kind) {
		if k.tls != tls.VersionTLS13 { // the records are those of TLS 1.3
			return
		}
		h := newHarness(t, k, 100)
		p, raw, w := dialRecords(t, h)
		send := func(b []byte) {
			t.Helper()
			if _, err := raw.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		await := func(what string, count func() int32, before int32) {
			t.Helper()
			testutil.Eventually(t, what, func() bool { return count() > before })
		}
		waits, works := p.s.waits.Load(), p.s.works.Load()
		send(w.record(data, nil))
		await("an empty record: BeforeWork is called", p.s.works.Load, works)
		await("an empty record: BeforeWait is called", p.s.waits.Load, waits)

		b := w.record(data, []byte("xy"))
		works = p.s.works.Load()
		send(b[:20])
		await("a part of a record: BeforeWork is called", p.s.works.Load, works)
		// The header is read, then the part of the rest that is there, and then it waits.
		testutil.Eventually(t, "a part of a record: BeforeWait is called", func() bool { return p.s.waits.Load() > waits+1 })
		works = p.s.works.Load()
		send(b[20:])
		p.expect("xy")
		if p.s.works.Load() == works {
			t.Error("the rest of a record: BeforeWork was not called")
		}
	})
}
