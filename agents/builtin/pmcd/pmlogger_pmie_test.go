package pmcd

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// pcpConfig returns directories with the files of a pmlogger and a pmie. Both are
// primary, and have the pid of this process.
func pcpConfig(t testing.TB) Config {
	t.Helper()
	c := Config{RunDir: t.TempDir(), TmpDir: t.TempDir(), Build: "1"}
	for _, dir := range []string{"pmlogger", "pmie"} {
		if err := os.Mkdir(filepath.Join(c.TmpDir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(c.TmpDir, "pmlogger", selfPID), []byte("4330\nfar.example\n/var/log/a\nfarm\n"))
	symlink(t, "/somewhere/else/"+selfPID, filepath.Join(c.TmpDir, "pmlogger", "primary"))
	writeFile(t, filepath.Join(c.TmpDir, "pmie", selfPID), pmieFile(0))
	writeFile(t, filepath.Join(c.RunDir, "pmie.pid"), []byte(selfPID+"\n"))
	return c
}

// selfPID is the pid of this process, as the name of a file.
var selfPID = strconv.Itoa(os.Getpid())

// startChild returns the pid of a process that exists until t ends.
func startChild(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("sleep", "3600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return strconv.Itoa(cmd.Process.Pid)
}

// deadPID is not the pid of a process: it is above the largest pid_max.
const deadPID = "4194305"

func symlink(t testing.TB, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// pmieFile returns a valid file of a pmie. Its numbers count from add+1.
func pmieFile(add uint32) []byte {
	b := make([]byte, pmieFileLen)
	copy(b, "/etc/rules")
	copy(b[pmieLog:], "/var/log/pmie")
	copy(b[pmieHost:], "near.example")
	binary.NativeEndian.PutUint32(b[pmieNumbers:], math.Float32bits(0.5))
	for i := range uint32(6) {
		binary.NativeEndian.PutUint32(b[pmieNumbers+4+4*i:], add+i+1)
	}
	binary.NativeEndian.PutUint32(b[pmieFileLen-4:], pmieVersion)
	return b
}

func TestPmieFileLength(t *testing.T) {
	if pmieFileLen != 8292 {
		t.Errorf("%d bytes", pmieFileLen)
	}
}

func TestPmlogger(t *testing.T) {
	a := New(2, "pmcd", newHost(), pcpConfig(t))
	pid := int32(os.Getpid())
	host, _ := os.Hostname()
	for name, want := range map[string]any{
		"pmcd.pmlogger.port":      int64(4330),
		"pmcd.pmlogger.pmcd_host": "far.example",
		"pmcd.pmlogger.archive":   "/var/log/a",
		"pmcd.pmlogger.host":      host,
		"pmcd.pmlogger.note":      "farm",
	} {
		got := values(t, a, root, includeAll, pmidOf(t, name))
		if want := []instValue{{pid, want}, {0, want}}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestPmie(t *testing.T) {
	c := pcpConfig(t)
	a := New(2, "pmcd", newHost(), c)
	pid := int32(os.Getpid())
	for _, add := range []uint32{0, 10} { // pmie updates the numbers in place
		writeFile(t, filepath.Join(c.TmpDir, "pmie", selfPID), pmieFile(add))
		for name, want := range map[string]any{
			"pmcd.pmie.configfile":    "/etc/rules",
			"pmcd.pmie.logfile":       "/var/log/pmie",
			"pmcd.pmie.pmcd_host":     "near.example",
			"pmcd.pmie.numrules":      int64(1 + add),
			"pmcd.pmie.actions":       int64(2 + add),
			"pmcd.pmie.eval.true":     int64(3 + add),
			"pmcd.pmie.eval.false":    int64(4 + add),
			"pmcd.pmie.eval.unknown":  int64(5 + add),
			"pmcd.pmie.eval.expected": 0.5,
			"pmcd.pmie.eval.actual":   int64(6 + add),
		} {
			got := values(t, a, root, includeAll, pmidOf(t, name))
			if want := []instValue{{0, want}, {pid, want}}; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
		}
	}
}

func TestParseLogger(t *testing.T) {
	for _, tt := range []struct {
		in   string
		ok   bool
		want logger
	}{
		{"4330\nh\n/a\nn\n", true, logger{port: 4330, pmcdHost: "h", archive: "/a", note: "n"}},
		{"4330\nh\n/a\nn\nmore\n", true, logger{port: 4330, pmcdHost: "h", archive: "/a", note: "n"}},
		{"4330\nh\n/a\n", true, logger{port: 4330, pmcdHost: "h", archive: "/a"}},
		{"4330\nh", true, logger{port: 4330, pmcdHost: "h"}},
		{"4330\n", true, logger{port: 4330}},
		{"0\n", true, logger{}},
		{"4330\n\n\nn", true, logger{port: 4330, note: "n"}},
		{"4330\nh\x00x\n\x00\n", true, logger{port: 4330, pmcdHost: "h"}},
		{"4330", false, logger{}},
		{"", false, logger{}},
		{"\n", false, logger{}},
		{"x\nh\n", false, logger{}},
		{"-1\nh\n", false, logger{}},
		{"65536\nh\n", false, logger{}},
		{" 4330\nh\n", false, logger{}},
	} {
		t.Run(tt.in, func(t *testing.T) {
			if got, ok := parseLogger([]byte(tt.in)); ok != tt.ok || got != tt.want {
				t.Errorf("got %+v, %v; want %+v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

// TestUntrustedDirectories has one valid file of a pmlogger or pmie, and many that
// must not be taken for one.
func TestUntrustedDirectories(t *testing.T) {
	childPID := startChild(t)
	for _, dir := range []string{"pmlogger", "pmie"} {
		t.Run(dir, func(t *testing.T) {
			good := map[string][]byte{"pmlogger": []byte("4330\nh\n"), "pmie": pmieFile(0)}[dir]
			secret := filepath.Join(t.TempDir(), "secret")
			writeFile(t, secret, good)
			for what, plant := range map[string]func(path string){
				"nothing":         func(string) {},
				"symbolic link":   func(path string) { symlink(t, secret, path) },
				"link to nowhere": func(path string) { symlink(t, "nowhere", path) },
				"loop":            func(path string) { symlink(t, filepath.Base(path), path) },
				"directory":       func(path string) { os.Mkdir(path, 0o755) },
				"FIFO":            func(path string) { syscall.Mkfifo(path, 0o644) },
				"empty":           func(path string) { writeFile(t, path, nil) },
				"short":           func(path string) { writeFile(t, path, good[:3]) },
				"long":            func(path string) { writeFile(t, path, append(good[:len(good):len(good)], make([]byte, 20000)...)) },
				"sparse":          func(path string) { writeFile(t, path, good); os.Truncate(path, 1<<40) },
				"zeros":           func(path string) { writeFile(t, path, make([]byte, pmieFileLen)) },
			} {
				t.Run(what, func(t *testing.T) {
					c := Config{TmpDir: t.TempDir(), RunDir: t.TempDir()}
					d := filepath.Join(c.TmpDir, dir)
					os.Mkdir(d, 0o755)
					writeFile(t, filepath.Join(d, selfPID), good)
					plant(filepath.Join(d, childPID))
					for _, name := range []string{deadPID, "0" + childPID, "+" + childPID, childPID + ".x", "-1", "0", "99999999999999999999", "x", "primary.x"} {
						writeFile(t, filepath.Join(d, name), good)
					}
					// The primary instance must be one of the others.
					symlink(t, secret, filepath.Join(d, "primary"))
					writeFile(t, filepath.Join(c.RunDir, "pmie.pid"), []byte(childPID))

					a := New(2, "pmcd", newHost(), c)
					indom := map[string]int{"pmlogger": indomLoggers, "pmie": indomPmies}[dir]
					list, err := a.Instances(t.Context(), origin, pdu.NewInDom(2, indom))
					if want := []pdu.Inst{{ID: int32(os.Getpid()), Name: selfPID}}; err != nil || !reflect.DeepEqual(list, want) {
						t.Errorf("got %v, %v, want %v", list, err, want)
					}
				})
			}
		})
	}
}

// TestPrimaryMustBeALink has a file, or links to other things, in place of the link to
// a pmlogger's file.
func TestPrimaryMustBeALink(t *testing.T) {
	c := pcpConfig(t)
	primary := filepath.Join(c.TmpDir, "pmlogger", "primary")
	for what, plant := range map[string]func() error{
		"file":        func() error { return os.WriteFile(primary, []byte("4330\nh\n"), 0o644) },
		"to nothing":  func() error { return os.Symlink("", primary) },
		"to itself":   func() error { return os.Symlink("primary", primary) },
		"to dead pid": func() error { return os.Symlink(deadPID, primary) },
		"to ..":       func() error { return os.Symlink("..", primary) },
	} {
		os.Remove(primary)
		plant()
		if got, err := New(2, "pmcd", newHost(), c).loggers(t.Context(), nil, pdu.InDomProfile{}); err != nil || len(got) != 1 {
			t.Errorf("%s: got %v, %v", what, got, err)
		}
	}
}

func TestPrimaryPmie(t *testing.T) {
	c, childPID := pcpConfig(t), startChild(t)
	for _, tt := range []struct {
		pidFile string
		want    int
	}{
		{selfPID, 2},
		{selfPID + "\n", 2},
		{" " + selfPID + " \n", 2},
		{deadPID, 1},
		{childPID, 1},
		{"", 1},
		{"-1", 1},
		{"0", 1},
		{"x", 1},
		{strings.Repeat("1", 1000), 1},
	} {
		writeFile(t, filepath.Join(c.RunDir, "pmie.pid"), []byte(tt.pidFile))
		if got, err := New(2, "pmcd", newHost(), c).pmies(t.Context(), nil, pdu.InDomProfile{}); err != nil || len(got) != tt.want {
			t.Errorf("%q: got %v, %v", tt.pidFile, got, err)
		}
	}
}

func TestServices(t *testing.T) {
	c, childPID := Config{RunDir: t.TempDir()}, startChild(t)
	a := New(2, "pmcd", newHost(), c)
	for _, tt := range []struct{ pidFile, want string }{
		{"", "pmcd"},
		{selfPID + "\n", "pmcd pmproxy"},
		{deadPID, "pmcd"},
		{"1\n2\n", "pmcd"},
		{childPID, "pmcd pmproxy"},
	} {
		if tt.pidFile != "" {
			writeFile(t, filepath.Join(c.RunDir, "pmproxy.pid"), []byte(tt.pidFile))
		}
		if got := values(t, a, root, includeAll, pmidOf(t, "pmcd.services"))[0].value; got != tt.want {
			t.Errorf("pmproxy.pid %q: got %q, want %q", tt.pidFile, got, tt.want)
		}
	}
}

func FuzzParseLogger(f *testing.F) {
	f.Add([]byte("4330\nfar.example\n/var/log/a\nfarm\n"))
	f.Add([]byte("4330\n\x00\n\n"))
	f.Add([]byte("65536\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, ok := parseLogger(b)
		if !ok {
			return
		}
		// The result is the same after it is written and parsed again.
		again, ok := parseLogger(fmt.Appendf(nil, "%d\n%s\n%s\n%s\n", l.port, l.pmcdHost, l.archive, l.note))
		if !ok || again != l {
			t.Errorf("got %+v, %v; want %+v", again, ok, l)
		}
		if l.port > math.MaxUint16 || strings.ContainsAny(l.pmcdHost+l.archive+l.note, "\n\x00") {
			t.Errorf("got %+v", l)
		}
	})
}

func FuzzParsePmie(f *testing.F) {
	f.Add("/etc/rules", "/var/log/pmie", "near.example", uint32(pmieVersion), 0)
	f.Add("x", "", "\x00y", uint32(2), 1)
	f.Fuzz(func(t *testing.T, config, log, host string, version uint32, extra int) {
		b := make([]byte, pmieFileLen+max(-pmieFileLen, min(extra, 100)))
		if len(b) == pmieFileLen {
			copy(b, config)
			copy(b[pmieLog:], log)
			copy(b[pmieHost:], host)
			binary.NativeEndian.PutUint32(b[pmieFileLen-4:], version)
		}
		p, ok := parsePmie(b)
		if ok != (version == pmieVersion && extra == 0) {
			t.Fatalf("version %d, %d bytes: %v", version, len(b), ok)
		}
		if len(p.config) > 4097 || len(p.log) > 4097 || len(p.pmcdHost) > 65 || strings.Contains(p.config+p.log+p.pmcdHost, "\x00") {
			t.Errorf("got %+v", p)
		}
	})
}
