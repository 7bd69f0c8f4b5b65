package nfsclient

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/pdu"
)

// none is what the harness has for a metric that no mount has.
var none = errNone.Error()

// others are mounts that are not of NFS.
const others = "device proc mounted on /proc with fstype proc\n" +
	"device /dev/sda1 mounted on / with fstype ext4\n" +
	"no device mounted on /x with fstype tmpfs\n" +
	"device nfsd mounted on /proc/fs/nfsd with fstype nfsd\n" +
	"device sunrpc mounted on /var/lib/nfs/rpc_pipefs with fstype rpc_pipefs\n"

// v3 is a mount as Linux 4.9 writes it.
const v3 = "device nas:/music mounted on /nas/music with fstype nfs statvers=1.1\n" +
	"\topts:\trw,sync,noatime,vers=3,rsize=32768,wsize=65536,bsize=1024,namlen=255,acregmin=3,acregmax=60,acdirmin=30,acdirmax=61," +
	"soft,posix,nocto,noac,nolock,nordirplus,nosharecache,noresvport,proto=udp,port=2049,timeo=11,retrans=2,sec=krb5," +
	"mountaddr=192.0.2.1,mountvers=3,mountport=30000,mountproto=udp,fsc,migration,lookupcache=pos,local_lock=all\n" +
	"\tage:\t572945\n" +
	"\tcaps:\tcaps=0x3fc7,wtmult=4096,dtsize=4096,bsize=0,namlen=255\n" +
	"\tsec:\tflavor=6,pseudoflavor=390003\n" +
	"\tevents:\t1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 4294967323 \n" +
	"\tbytes:\t31 32 33 34 35 36 37 18446744073709551615 \n" +
	"\tRPC iostats version: 1.0  p/v: 100003/3 (nfs)\n" +
	"\txprt:\tudp 774 42 43 44 45 46 47 48 49 50\n" +
	"\tper-op statistics\n" +
	"\t        NULL: 0 0 0 0 0 0 0 0\n" +
	"\t     GETATTR: 51 52 53 54 55 56 57 58\n" +
	"\t READDIRPLUS: 61 62 63 64 65 66 67 68\n" +
	"\n"

// v42 is a mount as Linux 5.15 writes it.
const v42 = "device [2001:db8::1]:/home mounted on /home\\040dir with fstype nfs4 statvers=1.1\n" +
	"\topts:\tro,nodiratime,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,acregmin=3,acregmax=60,acdirmin=30,acdirmax=60,softerr,noacl," +
	"proto=tcp6,nconnect=2,timeo=600,retrans=2,sec=sys,clientaddr=2001:db8::2,local_lock=none\n" +
	"\tage:\t92\n" +
	"\timpl_id:\tname='',domain='',date='0,0'\n" +
	"\tcaps:\tcaps=0x1fbffff,wtmult=512,dtsize=32768,bsize=0,namlen=255\n" +
	"\tnfsv4:\tbm0=0xfdffbfff,bm1=0x40f9be3e,bm2=0x20803,acl=0x3,sessions,pnfs=not configured,lease_time=90,lease_expired=0\n" +
	"\tsec:\tflavor=1,pseudoflavor=1\n" +
	"\tevents:\t101 5 0 0 0 0 9 256 0 0 0 3 0 1 2 2 0 1 0 0 256 0 0 0 0 0 127 \n" +
	"\tbytes:\t131 1048576 0 0 0 1048576 0 256 \n" +
	"\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n" +
	"\txprt:\ttcp 699 0 1 0 23 29 29 0 30 0 2 1 1\n" +
	"\txprt:\ttcp 700 142 143 144 145 146 147 148 149 150 151 152 153\n" +
	"\tper-op statistics\n" +
	"\t        NULL: 2 4 0 88 48 7 2 9 1\n" +
	"\t     GETATTR: 151 152 153 154 155 156 157 158 159\n" +
	"\t  READ_PLUS: 1 1 1 1 1 1 1 1 1\n" + // not a metric
	"\t  LAYOUTERROR: 161 162 163 164 165 166 167 18446744073709551615 169\n" +
	"\n"

// rdma is a mount by RDMA, and local one by a socket of the host.
const (
	rdma = "device ib:/scratch mounted on /scratch with fstype nfs statvers=1.1\n\topts:\trw,vers=3,hard,proto=rdma6\n" +
		"\txprt:\trdma 0 202 203 204 205 206 207 208 209 210 211 212 213 214 215 216 217 218 219 220 224 225 226 227 228 229 230\n"
	local = "device h:/l mounted on /l with fstype nfs4 statvers=1.1\n\topts:\trw,vers=4.1,hard\n" +
		"\txprt:\tlocal 302 303 304 305 306 307 308 309 310 321 322 323\n"
)

// A harness is an agent that reads a file, and a client of the agent.
type harness struct {
	*pmdatest.Harness
	host *host
	path string
}

func newHarness(tb testing.TB, text string) *harness {
	return newHarnessWith(tb, text, Options{CacheDir: tb.TempDir()})
}

func newHarnessWith(tb testing.TB, text string, o Options) *harness {
	tb.Helper()
	o.File = filepath.Join(tb.TempDir(), "mountstats")
	h := newHost(62, o)
	a, err := h.agent()
	if err != nil {
		tb.Fatal(err)
	}
	r := &harness{pmdatest.New(tb, 62, a, h.metrics()), h, o.File}
	r.write(text)
	return r
}

func (r *harness) write(text string) {
	r.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o666); err != nil {
		r.Fatal(err)
	}
}

func TestAgent(t *testing.T) {
	newHarness(t, others+v3+v42+rdma).CheckAgent()
}

// Names, PMIDs, types, semantics and units are those of pmdanfsclient. The test beside that
// agent compares all of them.
func TestDescribed(t *testing.T) {
	r := newHarness(t, v42)
	if len(r.Metrics) != 720 {
		t.Errorf("%d metrics, want 720", len(r.Metrics))
	}
	namer, texter := r.Agent.(agents.Namer), r.Agent.(agents.Texter)
	for name := range r.Metrics {
		if id, err := namer.PMID(t.Context(), agents.Origin{}, name); err != nil || id != r.ID(name) {
			t.Errorf("%s: %v, %v", name, id, err)
		}
		if text, err := texter.Text(t.Context(), agents.Origin{}, r.ID(name), true); err != nil || text == "" || len(text) > 80 {
			t.Errorf("help of %s: %q, %v", name, text, err)
		}
	}
	if text, err := texter.InDomText(t.Context(), agents.Origin{}, pdu.NewInDom(62, 0), true); err != nil || text == "" {
		t.Errorf("help of the instance domain: %q, %v", text, err)
	}
	for name, want := range map[string]string{
		"nfsclient.ops.null.ops":           "62.8.1 counter count",
		"nfsclient.ops.write.bytes_recv":   "62.8.68 counter byte",
		"nfsclient.ops.close.execute":      "62.8.206 counter millisec",
		"nfsclient.ops.seek.queue":         "62.8.528 counter millisec",
		"nfsclient.ops.layouterror.errors": "62.8.612 counter count",
		"nfsclient.age":                    "62.2.1 instant sec",
		"nfsclient.options.local_lock":     "62.1.37 instant none",
		"nfsclient.events.pnfswrite":       "62.5.27 counter count",
		"nfsclient.xprt.reply_waits":       "62.7.30 counter count",
	} {
		m := r.Metrics[name]
		sem := map[pdu.Sem]string{pdu.SemCounter: "counter", pdu.SemInstant: "instant"}[m.Sem]
		units := map[pdu.Units]string{0: "none", pdu.Count: "count", pdu.Byte: "byte", pdu.Msec: "millisec", pdu.Sec: "sec"}[m.Units]
		if got := fmt.Sprintf("%v %s %s", r.ID(name), sem, units); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Each case has values of all mounts, "" for none.
func TestValues(t *testing.T) {
	r := newHarness(t, others+v3+v42+rdma+local)
	for name, want := range map[string][4]string{ // of v3, v42, rdma and local
		"export": {"nas:/music", "[2001:db8::1]:/home", "ib:/scratch", "h:/l"}, "mountpoint": {"/nas/music", "/home\\040dir", "/scratch", "/l"},
		"age": {"572945", "92"}, "capabilities": {"caps=0x3fc7,wtmult=4096,dtsize=4096,bsize=0,namlen=255", "caps=0x1fbffff,wtmult=512,dtsize=32768,bsize=0,namlen=255", "-", "-"},
		"security": {"flavor=6,pseudoflavor=390003", "flavor=1,pseudoflavor=1", "-", "-"},

		"options.string": {v3[strings.Index(v3, "rw,"):strings.Index(v3, "\n\tage")], v42[strings.Index(v42, "ro,"):strings.Index(v42, "\n\tage")], "rw,vers=3,hard,proto=rdma6", "rw,vers=4.1,hard"},
		"options.vers":   {"3", "4.2", "3", "4.1"}, "options.readmode": {"rw", "ro", "rw", "rw"}, "options.recovery": {"soft", "softerr", "hard", "hard"},
		"options.proto": {"udp", "tcp", "rdma"}, "options.sec": {"krb5", "sys"},
		"options.sync": {"1", "0", "0", "0"}, "options.atime": {"0", "1", "1", "1"}, "options.diratime": {"1", "0", "1", "1"}, "options.posix": {"1", "0", "0", "0"},
		"options.cto": {"0", "1", "1", "1"}, "options.ac": {"0", "1", "1", "1"}, "options.lock": {"0", "1", "1", "1"}, "options.acl": {"1", "0", "1", "1"},
		"options.rdirplus": {"0", "1", "1", "1"}, "options.sharecache": {"0", "1", "1", "1"}, "options.resvport": {"0", "1", "1", "1"},
		"options.fsc": {"1", "0", "0", "0"}, "options.migration": {"1", "0", "0", "0"},
		"options.rsize": {"32768", "1048576", "0", "0"}, "options.wsize": {"65536", "1048576", "0", "0"}, "options.bsize": {"1024", "0", "0", "0"}, "options.namlen": {"255", "255", "0", "0"},
		"options.acregmin": {"3", "3", "0", "0"}, "options.acregmax": {"60", "60", "0", "0"}, "options.acdirmin": {"30", "30", "0", "0"}, "options.acdirmax": {"61", "60", "0", "0"},
		"options.port": {"2049", "0", "0", "0"}, "options.timeo": {"11", "600", "0", "0"}, "options.retrans": {"2", "2", "0", "0"},
		"options.mountaddr": {"192.0.2.1"}, "options.mountvers": {"3", "0", "0", "0"}, "options.mountport": {"30000", "0", "0", "0"},
		"options.mountproto": {"udp"}, "options.clientaddr": {"", "2001:db8::2"}, "options.lookupcache": {"pos"}, "options.local_lock": {"all", "none"},

		"nfsv4":                  {"-", "bm0=0xfdffbfff,bm1=0x40f9be3e,bm2=0x20803,acl=0x3,sessions,pnfs=not configured,lease_time=90,lease_expired=0", "-", "-"},
		"events.inoderevalidate": {"1", "101"}, "events.vfslock": {"17", "0"}, "events.pnfswrite": {"27", "127"},
		"bytes.read.normal": {"31", "131"}, "bytes.write.normal": {"32", "1048576"}, "bytes.read.direct": {"33", "0"}, "bytes.write.direct": {"34", "0"},
		"bytes.read.server": {"35", "0"}, "bytes.write.server": {"36", "1048576"}, "pages.read": {"37", "0"}, "pages.write": {"18446744073709551615", "256"},

		"xprt.srcport": {"774", "700", "0"}, "xprt.bind_count": {"42", "142", "202", "302"}, "xprt.connect_count": {"0", "143", "203", "303"}, "xprt.connect_time": {"0", "144", "204", "304"},
		"xprt.idle_time": {"0", "145", "205", "305"}, "xprt.sends": {"43", "146", "206", "306"}, "xprt.recvs": {"44", "147", "207", "307"}, "xprt.bad_xids": {"45", "148", "208", "308"},
		"xprt.req_u": {"46", "149", "209", "309"}, "xprt.backlog_u": {"47", "150", "210", "310"}, "xprt.max_slots": {"48", "151", "0", "321"}, "xprt.sending_u": {"49", "152", "0", "322"}, "xprt.pending_u": {"50", "153", "0", "323"},
		"xprt.read_chunks": {"0", "0", "211", "0"}, "xprt.write_chunks": {"0", "0", "212", "0"}, "xprt.reply_chunks": {"0", "0", "213", "0"}, "xprt.total_rdma_req": {"0", "0", "214", "0"}, "xprt.total_rdma_rep": {"0", "0", "215", "0"},
		"xprt.pullup": {"0", "0", "216", "0"}, "xprt.fixup": {"0", "0", "217", "0"}, "xprt.hardway": {"0", "0", "218", "0"}, "xprt.failed_marshal": {"0", "0", "219", "0"}, "xprt.bad_reply": {"0", "0", "220", "0"},
		"xprt.nomsg_call": {"0", "0", "224", "0"}, "xprt.mrs_recycled": {"0", "0", "225", "0"}, "xprt.mrs_orphaned": {"0", "0", "226", "0"}, "xprt.mrs_allocated": {"0", "0", "227", "0"},
		"xprt.local_inv_needed": {"0", "0", "228", "0"}, "xprt.empty_sendctxq": {"0", "0", "229", "0"}, "xprt.reply_waits": {"0", "0", "230", "0"},

		"ops.null.execute": {"0", "9"}, "ops.null.errors": {"", "1"},
		"ops.getattr.ops": {"51", "151"}, "ops.getattr.ntrans": {"52", "152"}, "ops.getattr.timeouts": {"53", "153"}, "ops.getattr.bytes_sent": {"54", "154"}, "ops.getattr.bytes_recv": {"55", "155"},
		"ops.getattr.queue": {"56", "156"}, "ops.getattr.rtt": {"57", "157"}, "ops.getattr.execute": {"58", "158"}, "ops.getattr.errors": {"", "159"},
		"ops.readdirplus.ops": {"61", ""}, "ops.layouterror.execute": {"", "18446744073709551615"}, "ops.layouterror.errors": {"", "169"}, "ops.open.ops": {},
	} {
		t.Run(name, func(t *testing.T) {
			var words []string
			for i, point := range []string{"/nas/music", "/home\\040dir", "/scratch", "/l"} {
				if want[i] != "" {
					words = append(words, point+"="+strings.TrimPrefix(want[i], "-"))
				}
			}
			if got, want := r.Values("nfsclient."+name), cmp.Or(strings.Join(words, " "), none); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// Each case is a file that a kernel does not write, or one of an old kernel.
func TestOdd(t *testing.T) {
	const device = "device h:/a mounted on /a with fstype nfs statvers=1.0\n"
	for _, tt := range []struct{ name, text, metric, want string }{
		{"no mount", others, "mountpoint", ""},
		{"an empty file", "", "mountpoint", ""},
		{"no newline at the end", others + strings.TrimSuffix(device, "\n"), "mountpoint", "/a=/a"},
		{"a line that ends early", "device h:/a mounted on /a with fstype nfs", "mountpoint", ""},
		{"another type with statistics", "device h:/a mounted on /a with fstype nfsd statvers=1.1\n\tage:\t1\n", "age", ""},
		{"statistics of another type", device + "\tage:\t1\n" + others + "\tage:\t2\n", "age", "/a=1"},
		{"no operations", device, "ops.getattr.ops", none},
		{"no age", device, "age", none},
		{"no security", device, "security", "/a="},
		{"no options", device + "\tage:\t1\n", "options.vers", none},
		{"fewer events", device + "\tevents:\t1 2 3 \n", "events.datainvalidate", "/a=3"},
		{"events that are missing", device + "\tevents:\t1 2 3 \n", "events.attrinvalidate", none},
		{"more events", device + "\tevents:\t" + strings.Repeat("7 ", 1000) + "\n", "events.pnfswrite", "/a=7"},
		{"a transport of Linux 2.6", device + "\txprt:\ttcp 1 2 3 4 5 6 7 8 9 10\n", "xprt.backlog_u", "/a=10"},
		{"what that does not have", device + "\txprt:\ttcp 1 2 3 4 5 6 7 8 9 10\n", "xprt.max_slots", none},
		{"an unknown transport", device + "\txprt:\tquic 1 2 3\n", "xprt.sends", none},
		{"a transport without numbers", device + "\txprt:\ttcp\n", "xprt.srcport", none},
		{"a negative number", device + "\txprt:\ttcp 1 2 3 4 -1 6\n", "xprt.idle_time", ""},
		{"a word that is no number", device + "\tbytes:\t1 x 3\n", "bytes.write.normal", none},
		{"a number of more than 64 bits", device + "\tbytes:\t18446744073709551616 2\n", "bytes.read.normal", none},
		{"an operation without all numbers", device + "\t        READ: 1 2 3 4 5 6 7\n", "ops.read.ops", none},
		{"an operation without a number", device + "\t        READ:\n\t        READ: \n\t:\n\t\n", "ops.read.ops", none},
		{"an operation in small letters", device + "\t        read: 1 2 3 4 5 6 7 8\n", "ops.read.ops", none},
		{"an option that another begins with", device + "\topts:\trw,vers=4.0,mountport=5,ac,syncx,=,port\n", "options.port", "/a=0"},
		{"an option that is no number", device + "\topts:\trw,timeo=x,retrans=\n", "options.timeo", "/a=0"},
		{"neither hard nor soft", device + "\topts:\trw\n", "options.recovery", none},
		{"fsc with a tag", device + "\topts:\trw,fsc=tag\n", "options.fsc", "/a=1"},
		{"octal numbers", "device h:/a\\011b mounted on /a\\040b\\134 with fstype nfs statvers=1.1\n", "export", "/a\\040b\\134=h:/a\\011b"},
		{"bytes that are not UTF-8", "device h:/\xff mounted on /\xfe with fstype nfs statvers=1.1\n", "export", "/\xfe=h:/\xff"},
		{"a mount over another", device + "\tage:\t1\n" + strings.Replace(device, ":/a", ":/b", 1) + "\tage:\t2\n", "age", "/a=2"},
		{"two mounts of an export", device + "\tage:\t1\n" + strings.Replace(device, "on /a", "on /b", 1) + "\tage:\t2\n", "age", "/a=1 /b=2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newHarness(t, v3+v42+rdma+local) // whose memory is used again
			r.Values("nfsclient.age")
			r.host.instances.HideAll()
			r.host.instances.LimitInactive(0)
			r.write(tt.text)
			if got := r.Values("nfsclient." + tt.metric); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Mounts keep their ids, also in the file that pmdanfsclient has written.
func TestInstances(t *testing.T) {
	r := newHarness(t, v3+v42)
	const saved = "2 0 2147483647\n0 1700000000 /gone\n7 1700000000 /home\\040dir\n"
	path := filepath.Join(r.host.CacheDir, "62.0")
	if err := os.WriteFile(path, []byte(saved), 0o644); err != nil {
		t.Fatal(err)
	}
	want := func(want string) {
		t.Helper()
		var words []string
		for _, i := range r.Instances(0) {
			words = append(words, fmt.Sprintf("%d=%s", i.ID, i.Name))
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("instances %q, want %q", got, want)
		}
	}
	want(`7=/home\040dir 8=/nas/music`)
	r.write(rdma + v42)
	want(`7=/home\040dir 9=/scratch`)
	r.Want(map[string]string{"nfsclient.options.vers": `/home\040dir=4.2 /scratch=3`})
	r.write(others)
	want("")
	r.Want(map[string]string{"nfsclient.options.vers": ""})
	r.write(v3 + rdma + v42)
	want(`7=/home\040dir 8=/nas/music 9=/scratch`)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stamps := regexp.MustCompile(`(?m)^(\d+) \d+ /`) // when a mount was added
	want62 := "2 0 2147483647\n0 /gone\n7 /home\\040dir\n8 /nas/music\n9 /scratch\n"
	if got := stamps.ReplaceAllString(string(b), "$1 /"); got != want62 {
		t.Errorf("saved %q, want %q", got, want62)
	}
}

// What is too large is an error, which the log has.
func TestLimits(t *testing.T) {
	var b strings.Builder
	for i := range maxMounts + 1 {
		fmt.Fprintf(&b, "device h:/%d mounted on /%d with fstype nfs4 statvers=1.1\n", i, i)
	}
	mounts := b.String()
	for _, tt := range []struct{ name, text, want string }{
		{"mounts", mounts, "more than 10,000 mounts of NFS"},
		{"bytes", strings.Repeat(strings.Repeat("x", 1<<10)+"\n", maxFile>>10), "more than 67108864 bytes"},
	} {
		var log bytes.Buffer
		r := newHarnessWith(t, tt.text, Options{CacheDir: t.TempDir(), Log: slog.New(serve.NewHandler(&log, "pmda", slog.LevelInfo))})
		if got := r.Values("nfsclient.age"); got != pdu.ErrnoGeneric.Error() {
			t.Errorf("%s: %s", tt.name, got)
		}
		if !strings.Contains(log.String(), tt.want) {
			t.Errorf("%s: the log has %s", tt.name, &log)
		}
	}
	r := newHarness(t, mounts[:strings.LastIndex(mounts[:len(mounts)-1], "\n")+1])
	if got := len(r.Instances(0)); got != maxMounts {
		t.Errorf("%d mounts", got)
	}
	// A user can mount with names of any length, but not NFS.
	long := "device " + strings.Repeat("x", 1<<15) + " mounted on /x with fstype fuse\n"
	if got := newHarness(t, long+v3+long).Values("nfsclient.age"); got != newHarness(t, v3).Values("nfsclient.age") || strings.Contains(got, "error") {
		t.Errorf("beside lines that are too long: %s", got)
	}
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	if got := r.Values("nfsclient.age"); got != "no such file or directory" {
		t.Errorf("no file: %s", got)
	}
}

// A fetch that ends early leaves nothing behind.
func TestEndsWithContext(t *testing.T) {
	var b strings.Builder
	for i := range 70 {
		b.WriteString(strings.Replace(local, "on /l", fmt.Sprintf("on /%d", i), 1))
	}
	text := b.String()
	if calls := pmdatest.CheckEnds(t, func() *pmdatest.Harness { return newHarness(t, text).Harness }); calls == 0 {
		t.Error("the context was never looked at")
	}
}

// A file in any pieces has the same mounts, and what precedes a device line does not
// matter.
func FuzzMountstats(f *testing.F) {
	for _, text := range []string{others, v3, v42, rdma, local, v3[:len(v3)/2], strings.ReplaceAll(v42, " ", "\t"), "\topts:\tro\n\n\t: 1\n", rdma + "\tevents:" + strings.Repeat("\t7", 50)} {
		f.Add(text)
	}
	dump := func(text string) (got string, err error) {
		p := newParser()
		p.begin(func() error { return nil })
		for line := range strings.SplitSeq(text, "\n") {
			if err := p.line([]byte(line)); err != nil {
				return "", err
			}
		}
		var b strings.Builder
		for _, m := range p.found() {
			fmt.Fprintf(&b, "%s %q %v %v\n", m.point, m.texts, m.lists, m.ops)
			for _, n := range m.lists {
				if len(n) > maxNumbers {
					return "", fmt.Errorf("%d numbers", len(n))
				}
			}
		}
		return b.String(), nil
	}
	r := newHarnessWith(f, "", Options{CacheDir: "/dev/null", Log: slog.New(slog.DiscardHandler)}) // nothing is saved
	fetch := r.Repeat(slices.Collect(maps.Keys(r.Metrics))...)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := dump(text)
		if err != nil {
			t.Fatal(err)
		}
		after, err := dump(v3 + text)
		before, _ := dump(v3)
		if rest, ok := strings.CutPrefix(after, before); (text == "" || text[0] != '\t') && (!ok || rest != got || err != nil) {
			t.Errorf("%q has\n%s, after another mount\n%s", text, got, rest)
		}
		if err := os.WriteFile(r.path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		fetch()
	})
}
