package proc

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// acctBytes composes a record of a process as linux/acct.h documents it.
func acctBytes(pid, btime uint32, etime float32, comm string) []byte {
	order := binary.NativeEndian
	b := []byte{acctFork | acctXSig, 3}
	if order.Uint16([]byte{0, 1}) == 1 {
		b[1] |= 0x80
	}
	b = order.AppendUint16(b, 0x8803)
	for _, n := range []uint32{9, 1000, 65534, pid, 1, btime, math.Float32bits(etime)} {
		b = order.AppendUint32(b, n)
	}
	for _, n := range []uint16{150, 0x1fff, 0x2001, 0, 0, 0xffff, 0xe001, 7} {
		b = order.AppendUint16(b, n)
	}
	return append(append(b, comm...), make([]byte, 16-len(comm))...)
}

func TestParseAcct(t *testing.T) {
	b := acctBytes(77, 1000, 250, "a b\x1b[1mc")
	r, ok := parseAcct(b)
	want := acctRecord{
		flags: 0x11, tty: 0x8803, exitcode: 9, uid: 1000, gid: 65534, pid: 77, ppid: 1, btime: 1000, etime: 250,
		counters: [...]uint64{150, 8191, 8, 0, 0, 8191 << 21, 1 << 21, 7}, comm: "a bc",
	}
	if !ok || r != want {
		t.Errorf("%+v, %v\nwant %+v", r, ok, want)
	}
	if end := r.ended(100); end != 1002 {
		t.Errorf("ended at %d", end)
	}
	for _, etime := range []float32{-1, 1e30, float32(math.NaN()), float32(math.Inf(1))} {
		if r.etime = etime; r.ended(100) != 1000 {
			t.Errorf("etime %v: ended at %d", etime, r.ended(100))
		}
	}
	for _, version := range []byte{0, 2, 3 ^ 0x80 ^ b[1]&0x80, 0x13} {
		b[1] = version
		if _, ok := parseAcct(b); ok {
			t.Errorf("version %#x is accepted", version)
		}
	}
	if _, ok := parseAcct(acctBytes(1, 1, 1, "x")[:63]); ok {
		t.Error("a short record is accepted")
	}
}

// An acctHarness is a harness whose test writes the host's accounting file.
type acctHarness struct {
	*harness
	systemFile string
	now        time.Time
}

func newAcctHarness(tb testing.TB) *acctHarness {
	tb.Helper()
	tb.Setenv("PCP_PACCT_SYSTEM_PATH", "/pacct")
	tb.Setenv("PCP_VAR_DIR", tb.TempDir())
	root := pmdatest.Tree(tb, map[string]string{
		"proc/": "", "pacct": string(acctBytes(1, 999, 100, "before")),
		"proc/tty/drivers":  "pty_slave            /dev/pts      136 0-1048575 pty:slave\nserial /dev/ttyS 4 64-95 serial\n",
		"sys/dev/char/4:64": "-> ../../devices/platform/serial8250/tty/ttyS0",
	})
	r := &acctHarness{newHarness(tb, Options{Root: root}), root + "/pacct", time.Unix(1000, 0)}
	r.host.acct.now = func() time.Time { return r.now }
	return r
}

func (r *acctHarness) append(records ...[]byte) {
	r.Helper()
	f, err := os.OpenFile(r.systemFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err == nil {
		for _, b := range records {
			f.Write(b)
		}
		err = f.Close()
	}
	if err != nil {
		r.Fatal(err)
	}
}

// The kernel writes the numbers of terminals in 16 bits.
func TestTerminalsOfAcct(t *testing.T) {
	h := newHost(3, Options{Root: pmdatest.Tree(t, map[string]string{
		"proc/tty/drivers": "pty_slave /dev/pts 136 0-1048575 pty:slave\nserial /dev/ttyS 4 64-95 serial\n",
	})})
	for tty, want := range map[uint16]string{0: "?", 0x8803: "pts/3", 0x88ff: "pts/255", 0x892c: "pts/300", 0x8fff: "pts/2047", 0x9001: "?", 0x0441: "ttyS/65"} {
		if got := h.terminals.name(&h.tree, ttyDevice(tty)); got != want {
			t.Errorf("%#x is %s, want %s", tty, got, want)
		}
	}
}

func TestAcct(t *testing.T) {
	testutil.NeedRoot(t) // only root may store
	r := newAcctHarness(t)
	r.Want(map[string]string{
		"acct.control.state": "0", "acct.psinfo.pid": "", "acct.control.lifetime": "60", "acct.control.refresh": "600",
		"acct.control.open_retry_interval": "60", "acct.control.check_acct_interval": "600",
		"acct.control.file_size_threshold": "10485760", "acct.control.enable_acct": "0",
	})
	// A partial record is read when it is complete.
	half := acctBytes(8, 998, 50, "half")
	r.append(acctBytes(5, 990, 250, "sh"), acctBytes(0, 990, 0, "none"), acctBytes(1<<31, 990, 0, "none"), acctBytes(6, 900, 3900, "old"),
		acctBytes(7, 900, 4000, "sh"), acctBytes(5, 995, 1, "again"), half[:20])
	r.Want(map[string]string{
		"acct.control.state": "1", "acct.psinfo.pid": "sh=7 sh=5", "acct.psinfo.btime": "sh=900 sh=990", "acct.psinfo.etime": "sh=40 sh=2.5",
		"acct.psinfo.utime": "sh=1.5 sh=1.5", "acct.psinfo.stime": "sh=81.91 sh=81.91", "acct.psinfo.mem": "sh=8 sh=8",
		"acct.psinfo.io": "sh=0 sh=0", "acct.psinfo.rw": "sh=0 sh=0", "acct.psinfo.swaps": "sh=7 sh=7",
		"acct.psinfo.minflt": "sh=17177772032 sh=17177772032", "acct.psinfo.majflt": "sh=2097152 sh=2097152",
		"acct.psinfo.exitcode": "sh=9 sh=9", "acct.psinfo.ppid": "sh=1 sh=1", "acct.psinfo.tty": "sh=34819 sh=34819",
		"acct.psinfo.ttyname": "sh=pts/3 sh=pts/3", "acct.id.uid": "sh=1000 sh=1000", "acct.id.gid": "sh=65534 sh=65534",
		"acct.flag.fork": "sh=1 sh=1", "acct.flag.su": "sh=0 sh=0", "acct.flag.core": "sh=0 sh=0", "acct.flag.xsig": "sh=1 sh=1",
	})
	r.append(half[20:])
	r.Want(map[string]string{"acct.psinfo.pid": "half=8 sh=7 sh=5"})
	// The processes sh ended more than a minute ago.
	r.now = time.Unix(1053, 0)
	r.Want(map[string]string{"acct.psinfo.pid": "half=8"})
	if got := r.host.terminals.name(&r.host.tree, 0x0440); got != "ttyS0" {
		t.Errorf("the terminal is %s", got)
	}
	// The process id 5 may be used again now. Records are read from a new file and
	// from a truncated one.
	if err := os.Rename(r.systemFile, r.systemFile+".1"); err != nil {
		t.Fatal(err)
	}
	r.append(acctBytes(5, 1050, 1, "new"))
	r.Want(map[string]string{"acct.psinfo.pid": "new=5 half=8"})
	r.append(acctBytes(9, 1050, 1, "a"), acctBytes(10, 1050, 1, "b"))
	r.Want(map[string]string{"acct.psinfo.pid": "b=10 a=9 new=5 half=8"})
	if err := os.Truncate(r.systemFile, 0); err != nil {
		t.Fatal(err)
	}
	r.append(acctBytes(11, 1050, 1, "c"))
	r.Want(map[string]string{"acct.psinfo.pid": "c=11 b=10 a=9 new=5 half=8"})
	if got := r.Store("acct.control.lifetime", word(2)); got != "" {
		t.Error(got)
	}
	r.Want(map[string]string{"acct.psinfo.pid": "", "acct.control.lifetime": "2"})
	// Bytes that are not a record are skipped.
	r.append([]byte(strings.Repeat("x", 100)))
	r.Want(map[string]string{"acct.control.state": "0"})
	r.append(acctBytes(12, 1053, 1, "d"))
	r.Want(map[string]string{"acct.control.state": "1", "acct.psinfo.pid": "d=12"})
	// Accounting counts as off check_acct_interval after the file last grew.
	r.now = time.Unix(1653, 0)
	r.Want(map[string]string{"acct.control.state": "1"})
	r.now = time.Unix(1654, 0)
	r.Want(map[string]string{"acct.control.state": "0"})
	if err := os.Remove(r.systemFile); err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]string{"acct.control.state": "0", "acct.psinfo.pid": ""})
}

// Records are kept for their lifetime when the clock is set.
func TestAcctWhenTheClockIsSet(t *testing.T) {
	for _, step := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		r := newAcctHarness(t)
		r.now = time.Now()
		r.Want(map[string]string{"acct.psinfo.pid": ""})
		r.append(acctBytes(5, uint32(r.now.Unix()-20), 1, "x"))
		r.Want(map[string]string{"acct.psinfo.pid": "x=5"})
		read := r.now
		r.now = testutil.ClockSet(read.Add(39*time.Second), step)
		r.Want(map[string]string{"acct.psinfo.pid": "x=5"})
		r.now = testutil.ClockSet(read.Add(41*time.Second), step)
		r.Want(map[string]string{"acct.psinfo.pid": ""})
	}
}

// Of many records the last are kept.
func TestManyAcct(t *testing.T) {
	r := newAcctHarness(t)
	r.Want(map[string]string{"acct.psinfo.pid": ""})
	var b []byte
	for pid := range uint32(2*maxEnded + 1) {
		b = append(b, acctBytes(pid+1, 1000, 1, "x")...)
	}
	r.append(b[:maxEnded*acctSize], b[maxEnded*acctSize:])
	for range 2 {
		in := r.Instances(indomAcct)
		if len(in) != maxEnded || in[0].ID != 2*maxEnded+1 || in[maxEnded-1].ID != maxEnded+2 {
			t.Fatalf("%d from %v", len(in), in[:min(1, len(in))])
		}
	}
	r.append(acctBytes(1, 1000, 1, "y"))
	if in := r.Instances(indomAcct); len(in) != maxEnded || in[0].ID != 1 || in[1].ID != 2*maxEnded+1 {
		t.Fatalf("%d from %v", len(in), in[:min(2, len(in))])
	}
}

// A new record in place of the oldest moves the others seldom.
func TestAcctMovesFewRecords(t *testing.T) {
	a := newAcctHarness(t).host.acct
	moved := 0
	for pid := range int32(3 * maxEnded) {
		var second *acctRecord
		if len(a.ended) == maxEnded {
			second = &a.ended[1]
		}
		a.add(&acctRecord{pid: pid + 1}, time.Unix(1000, 0))
		if second != nil && &a.ended[0] != second {
			moved++
		}
	}
	if moved > 100 {
		t.Errorf("%d of %d new records moved all", moved, 2*maxEnded)
	}
}

// Clients see the records of the host's file if their user may read the file.
func TestAcctVisible(t *testing.T) {
	t.Setenv("TMPDIR", testutil.SharedDir(t))
	r := newAcctHarness(t)
	r.Values("acct.psinfo.pid")
	r.append(acctBytes(5, 1000, 1, "x"))
	uid, gid := os.Geteuid(), os.Getegid()
	for _, tt := range []struct {
		uid  int
		mode os.FileMode
		want string
	}{
		{uid, 0o600, "x=5"}, {uid + 1000, 0o600, ""}, {uid + 1000, 0o604, "x=5"}, {-1, 0o604, ""},
	} {
		if err := os.Chmod(r.systemFile, tt.mode); err != nil {
			t.Fatal(err)
		}
		root := filepath.Dir(r.systemFile) // of t.TempDir
		for _, dir := range []string{filepath.Dir(root), root} {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		switch {
		case tt.uid < 0:
			r.setAttrs(nil)
		case tt.uid == uid:
			r.setUser(uid, gid)
		default:
			r.setUser(tt.uid, gid+1000)
		}
		r.Want(map[string]string{"acct.psinfo.pid": tt.want})
		if got := len(r.Instances(indomAcct)); got != len(strings.Fields(tt.want)) {
			t.Errorf("user %d, mode %v: %d instances", tt.uid, tt.mode, got)
		}
		for _, name := range []string{"enable_acct", "lifetime", "refresh", "file_size_threshold", "open_retry_interval", "check_acct_interval"} {
			want := ""
			if tt.uid != 0 {
				want = pdu.ErrnoPermission.Error()
			} else if name == "enable_acct" {
				continue
			}
			v := word(7)
			if name == "file_size_threshold" {
				v = long(7)
			}
			if got := r.Store("acct.control."+name, v); got != want {
				t.Errorf("user %d stores %s: %q, want %q", tt.uid, name, got, want)
			}
		}
		r.host.acct.checkInterval, r.host.acct.lifetime = 600, 60
	}
	if got := r.Store("acct.control.state", word(1)); got != pdu.ErrnoPermission.Error() {
		t.Errorf("store of the state: %q", got)
	}
}

func long(n byte) pdu.Value {
	return pdu.Value{Type: pdu.MetricU64, Block: []byte{0, 0, 0, 0, 0, 0, 0, n}}
}

// Private accounting. The test runs in a pid namespace of its own, because the
// kernel has accounting for each pid namespace, and with a disk of its own, which is not full.
func TestPrivateAcct(t *testing.T) {
	if !testutil.InProcess(t, syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}) {
		return
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		testutil.Missing(t, err)
	}
	if err := syscall.Mount("tmpfs", os.TempDir(), "tmpfs", 0, "size=4m"); err != nil {
		testutil.Missing(t, err)
	}
	r := newAcctHarness(t)
	r.host.acct.now = time.Now
	r.append(acctBytes(5, uint32(time.Now().Unix()), 1, "host"))
	r.Want(map[string]string{"acct.control.state": "0"})
	path := r.host.acct.privatePath
	filler := filepath.Join(t.TempDir(), "filler")
	pmdatest.WriteFile(t, "", filler, strings.Repeat("x", 3960<<10))
	if _, err := startPrivateAcct(path); errors.As(err, new(syscall.Errno)) {
		testutil.Missing(t, err) // a kernel without process accounting
	} else if want := "the kernel does not write to " + path + ": less than 4 % of its file system is free"; err == nil || err.Error() != want {
		t.Errorf("on a full disk: %v, want %s", err, want)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if got := r.Store("acct.control.enable_acct", word(3)); got != "" {
		t.Fatal(got)
	}
	run := func() string {
		t.Helper()
		cmd := exec.Command("sh", "-c", "kill -KILL $$")
		_ = cmd.Run()
		return strconv.Itoa(cmd.Process.Pid)
	}
	has := func(name, value string) {
		t.Helper()
		if got := " " + r.Values(name) + " "; !strings.Contains(got, " sh="+value+" ") {
			t.Errorf("%s has%s, not sh=%s", name, got, value)
		}
	}
	pid := run()
	has("acct.psinfo.pid", pid)
	has("acct.psinfo.exitcode", "9")
	has("acct.flag.xsig", "1")
	has("acct.id.uid", "0")
	has("acct.psinfo.ppid", "1")
	r.Want(map[string]string{"acct.control.state": "2", "acct.control.enable_acct": "3"})

	// Other users see the records, too, but may not switch accounting off.
	r.setUser(65534, 65534)
	has("acct.psinfo.pid", pid)
	if got := r.Store("acct.control.enable_acct", word(0)); got != pdu.ErrnoPermission.Error() {
		t.Errorf("store by uid 65534: %q", got)
	}

	// The size of the private file is limited.
	p := r.host.acct.private
	p.limitSize(time.Millisecond, 3*acctSize)
	for end := time.Now().Add(testutil.Hangs); ; {
		st, err := os.Stat(path)
		if err != nil || time.Now().After(end) {
			t.Fatalf("%v bytes, %v", st.Size(), err)
		}
		if st.Size() < p.lastSize {
			break
		}
		run()
	}
	p.limitSize(time.Hour, 0)
	has("acct.psinfo.pid", run())

	// The host's file replaces the private one when the kernel writes to it.
	r.setUser(0, 0)
	if err := syscall.Acct(r.systemFile); err != nil {
		t.Fatal(err)
	}
	pid = run()
	r.Want(map[string]string{"acct.control.state": "1"})
	has("acct.psinfo.pid", pid)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the private file: %v", err)
	}
	has("acct.psinfo.pid", run()) // the host's accounting is still on
	for name, v := range map[string]pdu.Value{"check_acct_interval": word(0), "refresh": word(5), "file_size_threshold": long(100)} {
		if got := r.Store("acct.control."+name, v); got != "" {
			t.Errorf("store of %s: %s", name, got)
		}
	}
	if got := r.Store("acct.control.refresh", word(0)); got != pdu.ErrnoPermission.Error() {
		t.Errorf("refresh of 0: %q", got)
	}
	if _, _, errno := syscall.Syscall(syscall.SYS_ACCT, 0, 0, 0); errno != 0 {
		t.Fatal(errno)
	}
	r.Values("acct.control.state") // reads the records so far
	r.Want(map[string]string{"acct.control.state": "2"})
	if got := r.Store("acct.control.enable_acct", word(0)); got != "" {
		t.Error(got)
	}
	r.Want(map[string]string{"acct.control.state": "0", "acct.psinfo.pid": ""})
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the private file: %v", err)
	}
	// An agent switches off the accounting of one that was killed, but not that of
	// one that runs.
	for _, killed := range []bool{false, true} {
		p, err := startPrivateAcct(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if killed {
			p.file.Close()
		}
		if _, err := newHost(3, r.host.Options).agent(""); err != nil {
			t.Fatal(err)
		}
		before, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		run()
		after, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		_, err = os.Stat(path)
		if on := after.Size() > before.Size(); on == killed || os.IsNotExist(err) != killed {
			t.Errorf("killed is %v: accounting is %v, the file: %v", killed, on, err)
		}
		f.Close()
		if !killed {
			p.stop()
		}
	}
	// A symbolic link in place of the private file is not followed.
	victim := filepath.Join(t.TempDir(), "victim")
	pmdatest.WriteFile(t, "", victim, "precious")
	pmdatest.WriteFile(t, "", path, "-> "+victim)
	if got := r.Store("acct.control.enable_acct", word(1)); got != "" {
		t.Error(got)
	}
	run()
	if b, err := os.ReadFile(victim); string(b) != "precious" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	r.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the private file: %v", err)
	}
}

// For any contents of the file there is at most one process for each record, and
// no process id occurs twice.
func FuzzAcct(f *testing.F) {
	f.Add(acctBytes(5, 1000, 1, "x"), []byte{})
	f.Add(acctBytes(5, 1000, 1, "x")[:30], acctBytes(6, 1000, 1e30, "0123456789abcdef"))
	f.Add([]byte("xyz"), append(acctBytes(5, 1000, 1, "x"), acctBytes(5, 1000, 1, "x")...))
	h := newHarness(f, Options{}).host
	file, err := os.Create(filepath.Join(f.TempDir(), "pacct"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, before, after []byte) {
		if err := file.Truncate(0); err != nil {
			t.Fatal(err)
		}
		a := newAcct(h)
		a.visible = true
		for _, b := range [][]byte{before, after} {
			if _, err := file.WriteAt(b, a.system.lastSize); err != nil {
				t.Fatal(err)
			}
			a.system.lastSize += int64(len(b))
			a.system.read(int(file.Fd()), maxEnded, func(r *acctRecord) { a.add(r, time.Now()) })
			seen := map[int32]bool{}
			a.Each(func(pid int32, name string, _ any) bool {
				if pid <= 0 || seen[pid] || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' }) {
					t.Errorf("%d %q after %x, %x", pid, name, before, after)
				}
				seen[pid] = true
				return true
			})
			if int64(len(seen)) > a.system.lastSize/acctSize || a.system.lastSize-a.system.offset >= acctSize {
				t.Errorf("%d processes, read up to %d after %x, %x", len(seen), a.system.offset, before, after)
			}
		}
	})
}

// Root follows no link to the directory, or to one above it, that another user can have made.
func TestAcctLinkedDirectory(t *testing.T) {
	dir := testutil.LinkedDir(t)
	for _, name := range []string{"pacct", "pmcd/pacct"} {
		if p, err := startPrivateAcct(filepath.Join(dir, name)); err == nil {
			p.stop()
			t.Errorf("accounting to %s", name)
		}
	}
}
