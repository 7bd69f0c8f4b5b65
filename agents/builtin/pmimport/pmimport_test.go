package pmimport

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/pdu"
)

// A harness is an agent that reads a directory, and a client of the agent.
type harness struct {
	*pmdatest.Harness
	testing.TB
	host *host
	dir  string
	log  bytes.Buffer
}

func newHarness(tb testing.TB, files map[string]string) *harness {
	tb.Helper()
	r := &harness{TB: tb, dir: pmdatest.Tree(tb, files)}
	r.host = newHost(43, Options{
		Dir: r.dir, CacheDir: tb.TempDir(), LocalTime: filepath.Join(r.dir, ".localtime"), Log: slog.New(serve.NewHandler(&r.log, "pmda", slog.LevelInfo)),
	})
	a, err := r.host.agent()
	if err != nil {
		tb.Fatal(err)
	}
	r.Harness = pmdatest.New(tb, 43, a, r.host.metrics())
	return r
}

// wantLog checks that there is one line in the log, and clears the log.
func (r *harness) wantLog(want string) {
	r.Helper()
	if _, got, _ := strings.Cut(r.log.String(), " Warning: "); got != want+"\n" {
		r.Errorf("log:\n%s\nwant %s", r.log.String(), want)
	}
	r.log.Reset()
}

func TestAgent(t *testing.T) {
	newHarness(t, map[string]string{"sadc": "version=12.8.0\n"}).CheckAgent()
}

// Names, PMIDs and descriptors are those of PCP 7.2.1.
func TestDescribed(t *testing.T) {
	r := newHarness(t, nil)
	namer, texter := r.Agent.(agents.Namer), r.Agent.(agents.Texter)
	want := map[string]string{
		"pmimport.archive": "43.0.0 43.0", "pmimport.version": "43.0.1 43.0", "pmimport.args": "43.0.2 43.0",
		"pmimport.hostname": "43.1.0 none", "pmimport.timezone": "43.1.1 none", "pmimport.zoneinfo": "43.1.2 none",
	}
	if len(r.Metrics) != len(want) {
		t.Errorf("%d metrics", len(r.Metrics))
	}
	for name, want := range want {
		id, err := namer.PMID(t.Context(), agents.Origin{}, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var d pdu.Desc
		if err := r.Do(&pdu.DescReq{PMID: id}, &d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		indom := "none"
		if d.InDom != pdu.NoInDom {
			indom = d.InDom.String()
		}
		if got := fmt.Sprint(id, " ", indom); got != want || d.ValueType != pdu.MetricString || d.Sem != pdu.SemDiscrete || d.Units != 0 {
			t.Errorf("%s: %s %+v", name, got, d)
		}
		if text, err := texter.Text(t.Context(), agents.Origin{}, id, true); err != nil || text == "" || len(text) > 80 {
			t.Errorf("help of %s: %q, %v", name, text, err)
		}
	}
	if text, err := texter.InDomText(t.Context(), agents.Origin{}, pdu.NewInDom(43, 0), true); err != nil || text == "" {
		t.Errorf("help of the instance domain: %q, %v", text, err)
	}
}

// Each case is a file of a tool; want is version, args and archive, or "" if there is no
// instance.
func TestTools(t *testing.T) {
	live, long := fmt.Sprint(os.Getpid()), strings.Repeat("x", 5000)
	for _, tt := range []struct{ name, text, want string }{
		{"all lines", "pid=" + live + "\nversion=12.8.0\nargs=CPU,DISK\narchive=/var/log/sa/sa01\n", "12.8.0|CPU,DISK|/var/log/sa/sa01"},
		{"no pid", "version=1\nargs=a=b c\narchive=/a\n", "1|a=b c|/a"},
		{"an empty file", "", "||"},
		{"the process does not exist", "pid=2147483647\nversion=1\n", ""},
		{"that of another user", "pid=1\nversion=1\n", "1||"},
		{"pids that are none", "pid=0\npid=-1\npid=x\npid=\npid=99999999999\npid=2147483648\nversion=1\n", "1||"},
		{"a pid, and one that is none", "pid=2147483647\npid=x\n", ""},
		{"a pid as strtol(3) takes it", "pid= \t+02147483647\n", ""},
		{"a pid and more", "pid=2147483647 \nversion=1\n", "1||"},
		{"two pids", "pid=2147483647\npid=" + live + "\nversion=1\n", "1||"},
		{"no newline at the end", "version=1\narchive=/a", "1||/a"},
		{"a carriage return", "version=1\rx\r\nargs=b\r\n", "1|b|"},
		{"a NUL", "version=1\x00x\nargs=\x00\n", "1||"},
		{"the last line counts", "version=1\nversion=2\n", "2||"},
		{"other lines", "args=a\nhost=x\nargs\n version=3\n=\n\n", "|a|"},
		{"long values", "version=" + long + "\nargs=" + long + "\n", long + "|" + long + "|"},
		{"a file that is too large", "version=1\n" + strings.Repeat("x", maxFile), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newHarness(t, map[string]string{"tool": tt.text})
			want := map[string]string{"pmimport.version": "", "pmimport.args": "", "pmimport.archive": ""}
			if w := strings.Split(tt.want, "|"); len(w) == 3 {
				want = map[string]string{"pmimport.version": "tool=" + w[0], "pmimport.args": "tool=" + w[1], "pmimport.archive": "tool=" + w[2]}
			}
			r.Want(want)
		})
	}
}

// What is no file of a tool has no instance and costs the others nothing. The log says so once.
func TestOthers(t *testing.T) {
	r := newHarness(t, map[string]string{"sadc": "version=1\n", ".sadc": "version=2\n", "dir/x": "version=3\n"})
	for name, target := range map[string]string{"link": "sadc", "zero": "/dev/zero"} {
		if err := os.Symlink(target, filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(r.dir, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.Want(map[string]string{"pmimport.version": "sadc=1"})
	}
	r.wantLog("pmimport: tools are left out: " + r.dir + "/dir: not a regular file of less than 16385 bytes")
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]string{"pmimport.version": ""})
}

// Eight tools are instances. What has stayed behind of tools that have ended does not count.
func TestManyTools(t *testing.T) {
	files := make(map[string]string)
	for i := range 9 {
		files[fmt.Sprintf("old%d", i)] = "pid=2147483647\n"
		files[fmt.Sprintf("tool%d", i)] = fmt.Sprintf("version=%d\n", i)
	}
	r := newHarness(t, files)
	r.Want(map[string]string{"pmimport.version": "tool0=0 tool1=1 tool2=2 tool3=3 tool4=4 tool5=5 tool6=6 tool7=7"})
	r.wantLog("pmimport: tools are left out: " + r.dir + "/tool8: there are more than 8 tools")
	if err := os.Mkdir(filepath.Join(r.dir, "tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]string{"pmimport.args": "tool0= tool1= tool2= tool3= tool4= tool5= tool6= tool7="})
	r.wantLog("pmimport: tools are left out: " + r.dir + "/tool: not a regular file of less than 16385 bytes")
}

// What the file of a tool said is not kept when the tool has ended; its id is.
func TestEnded(t *testing.T) {
	r := newHarness(t, map[string]string{"sadc": "version=1\n", "atop": "version=2\n"})
	r.Want(map[string]string{"pmimport.version": "atop=2 sadc=1"})
	if err := os.Remove(filepath.Join(r.dir, "atop")); err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]string{"pmimport.version": "sadc=1"})
	if e, err := r.host.tools.LookupName("atop"); err != nil || *e.Data.(*tool) != (tool{}) {
		t.Errorf("%+v, %v", e, err)
	}
	pmdatest.WriteFile(t, r.dir, "atop", "version=3\n")
	r.Want(map[string]string{"pmimport.version": "atop=3 sadc=1"})
}

// Ids are those of the file that pmdapmimport has saved, and new ones are saved.
func TestIDs(t *testing.T) {
	vars := pmdatest.Tree(t, map[string]string{"43.0": "2 0 2147483647\n3 1700000000 sadc\n"})
	dir := pmdatest.Tree(t, map[string]string{"atop": "", "sadc": ""})
	h := newHost(43, Options{Dir: dir, CacheDir: vars})
	a, err := h.agent()
	if err != nil {
		t.Fatal(err)
	}
	r := pmdatest.New(t, 43, a, h.metrics())
	if got := fmt.Sprint(r.Instances(0)); got != "[{3 sadc} {4 atop}]" {
		t.Errorf("instances: %s", got)
	}
	if b, err := os.ReadFile(filepath.Join(vars, "43.0")); err != nil || !bytes.Contains(b, []byte("\n4 ")) || !bytes.Contains(b, []byte(" atop\n")) {
		t.Errorf("saved: %q, %v", b, err)
	}
}

func TestHost(t *testing.T) {
	// The file of a zone with one offset, see tzfile(5).
	r := newHarness(t, map[string]string{".zoneinfo/Area/Town": "TZif" + strings.Repeat("\x00", 16+4*4) + "\x00\x00\x00\x01\x00\x00\x00\x04" +
		"\x00\x00\x4d\x58\x00\x00" + "IST\x00"})
	if err := os.Symlink(".zoneinfo/Area/Town", filepath.Join(r.dir, ".localtime")); err != nil {
		t.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]string{"pmimport.hostname": name, "pmimport.timezone": "IST-5:30", "pmimport.zoneinfo": ":Area/Town"})
}

// A fetch that ends early leaves nothing behind. Each file is a place where a fetch can end.
func TestEndsWithContext(t *testing.T) {
	files := map[string]string{"a": "version=1\n", "z": "version=2\n"}
	start := func() *pmdatest.Harness { return newHarness(t, files).Harness }
	few := pmdatest.CheckEnds(t, start)
	for i := range 70 {
		files[fmt.Sprint("old", i)] = "pid=2147483647\n"
	}
	if many := pmdatest.CheckEnds(t, start); many <= few {
		t.Errorf("%d looks at the context with 72 files, %d with 2", many, few)
	}
}

// No value has a byte that ends a line or a text, and a line at the end is as before.
func FuzzTool(f *testing.F) {
	for _, text := range []string{
		"pid=1\nversion=12.8.0\nargs=CPU,DISK\narchive=/var/log/sa/sa01\n", "version=1\r\nargs=\x00\n", "pid=\npid=-1\npid=99999999999", "=\n\n\narchive==",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got := *parse(text)
		if got.pid < 0 || strings.ContainsAny(got.version+got.args+got.archive, "\r\n\x00") {
			t.Errorf("%q is %+v", text, got)
		}
		if again := *parse(append(text, "\nother\n"...)); again != got {
			t.Errorf("%q is %+v, with another line %+v", text, got, again)
		}
	})
}
