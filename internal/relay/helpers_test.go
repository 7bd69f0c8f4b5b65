package relay

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// A capture is a RESULT that a program of PCP 6.0.3 has sent: see pdu/testdata/pdus/INDEX.txt.
type capture struct {
	file string
	wire []byte
}

func captures(t testing.TB) []capture {
	t.Helper()
	const dir = "../../pdu/testdata/pdus"
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var cs []capture
	for _, f := range files {
		if f.Name() == "INDEX.txt" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		c := capture{file: f.Name(), wire: unhex(t, string(text))}
		if _, typ, _ := pdu.Header(c.wire); typ == pdu.TypeResult {
			cs = append(cs, c)
		}
	}
	if len(cs) < 8 {
		t.Fatalf("%d results among the captures", len(cs))
	}
	return cs
}

// unhex turns words such as "00000010 00007004" into bytes.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mixed is a RESULT with an error, no value, a word and a block.
const mixed = "00000058 00007001 00000007 00000000 00000000 00000004 " +
	"07400001 ffffcfba " +
	"07400002 00000000 " +
	"07400003 00000001 00000000 ffffffff 0000002a " +
	"07400004 00000001 00000001 00000000 00000014 " +
	"06000007 68690a7e"

// frame returns the RESULT PDU with a body.
func frame(body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(pdu.HeaderLen+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(pdu.TypeResult))
	return append(binary.BigEndian.AppendUint32(b, 0), body...)
}

// seeds adds the bodies of RESULT PDUs.
func seeds(f *testing.F) {
	for _, c := range captures(f) {
		f.Add(c.wire[pdu.HeaderLen:])
	}
	f.Add(unhex(f, mixed)[pdu.HeaderLen:])
}

// pmids returns the metrics of a result, in turn.
func pmids(sets []pdu.ValueSet) []pdu.PMID {
	var ids []pdu.PMID
	for _, vs := range sets {
		ids = append(ids, vs.PMID)
	}
	return ids
}
