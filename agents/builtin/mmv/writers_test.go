package mmv

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/mmv/mmvtest"
	"github.com/gopcp/pmcd/pdu"
)

// The values are those that the programs beside the files have written: with PCP's libraries
// for C and Python, and with github.com/performancecopilot/speed.
func TestOtherWriters(t *testing.T) {
	const golden = "../../../internal/mmvformat/testdata"
	long := "name.of.more.than.63.bytes.that.is.in.the.section.of.strings.and.not.in.the.entry"
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(golden, "*.mmv"))
	if err != nil || len(files) != 6 {
		t.Fatalf("files %q, %v", files, err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		mmvtest.Write(t, dir, strings.TrimSuffix(filepath.Base(path), ".mmv"), b)
	}
	c := newClient(t, dir)
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		// The files are of a little-endian host.
		if n := strings.Count(c.log.String(), "\n"); n != len(files) || len(c.names()) != 0 {
			t.Errorf("names %q, log: %s", c.names(), &c.log)
		}
		return
	}
	want := map[string]string{
		"mmv.c_v1.s32": "-5", "mmv.c_v1.u32": "4000000000", "mmv.c_v1.s64": "-6", "mmv.c_v1.u64": "1",
		"mmv.c_v1.float": "1.5", "mmv.c_v1.double": "0.25", "mmv.c_v1.string": `"text"`, "mmv.c_v1.elapsed": "12345",
		"mmv.c_v1.none": pdu.ErrnoAppVersion.Error(), "mmv.c_v1.insts.u64": "0=0 7=77 -2=0",
		"mmv.c_v1.insts.string": `0="" 7="" -2="other text"`,
		// With the flag "sentinel", and without a prefix. An s64 of -1 is no value.
		"mmv.double": "", "mmv." + long: "9", "mmv.insts.s64": "7=-7",
		"mmv.c_v3.u64": "18446744073709549568", "mmv.c_v3.insts.float": "0=0 1=0.5",
		"mmv.python_v1.insts.u64": "0=0 1=42", "mmv.python_v1.double": "2.5", "mmv.python_v1.string": `"text"`,
	}
	for _, name := range []string{"speed_v1", "speed_v2"} {
		text := "long"
		if name == "speed_v2" {
			text = strings.Repeat("long", 20)
		}
		p := "mmv." + name + "."
		for metric, value := range map[string]string{
			"s32": "-5", "u32": "4000000000", "s64": "-6", "u64": "9223372036854775808", "float": "1.5", "double": "0.25",
			"string." + text: `"text"`, "counter": "1",
		} {
			want[p+metric] = value
		}
	}
	c.want(want)
	// speed makes ids of instances from their names.
	for _, p := range []string{"mmv.speed_v1.", "mmv.speed_v2."} {
		if got := c.value(p + "vector"); !strings.Contains(got, "=2") || !strings.Contains(got, "=0") || strings.Count(got, "=") != 2 {
			t.Errorf("%svector is %s", p, got)
		}
		if got := c.value(p + "texts"); !strings.Contains(got, `="A"`) || !strings.Contains(got, `="other"`) {
			t.Errorf("%stexts is %s", p, got)
		}
	}
	if n := len(c.names()); n != 40 {
		t.Errorf("%d metrics", n)
	}
	if log := c.log.String(); log != "" {
		t.Errorf("log: %s", log)
	}
}
