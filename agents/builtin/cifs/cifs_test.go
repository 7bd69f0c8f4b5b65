package cifs

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/pdu"
)

// none is what the harness has for a metric that no instance has.
var none = pdu.ErrnoAppVersion.Error()

// head is the start of Stats.
const head = "Resources in use\nCIFS Session: 1\nShare (unique mount targets): 2\nSMB Request/Response Buffer: 3 Pool size: 4\n" +
	"SMB Small Req/Resp Buffer: 5 Pool size: 6\nTotal Large 7 Small 8 Allocations\nOperations (MIDs): 9\n\n" +
	"10 session 11 share reconnects\nTotal vfs operations: 12 maximum at one time: 13\n\n"

// Shares as kernels write them: SMB 1 in 3.x, and in 6.x; SMB 2 in 4.x, and SMB 3 in 6.x.
const (
	smb1 = "1) \\\\a\\one\nSMBs: 101 Oplocks breaks: 102\nReads:  103 Bytes: 104\nWrites: 105 Bytes: 18446744073709551615\nFlushes: 107\n" +
		"Locks: 108 HardLinks: 109 Symlinks: 110\nOpens: 111 Closes: 112 Deletes: 113\nPosix Opens: 114 Posix Mkdirs: 115\n" +
		"Mkdirs: 116 Rmdirs: 117\nRenames: 118 T2 Renames 119\nFindFirst: 120 FNext 121 FClose 122\n"
	smb1Late = "2) \\\\a\\late\tDISCONNECTED \nSMBs: 201 since 2026-01-02 03:04:05 UTC Oplocks breaks: 202\nReads:  203 Bytes: 204\n"
	smb2     = "3) \\\\b\\two\nSMBs: 301\nNegotiates: 328 sent 329 failed\nSessionSetups: 330 sent 331 failed\nLogoffs: 332 sent 333 failed\n" +
		"TreeConnects: 334 sent 335 failed\nTreeDisconnects: 336 sent 337 failed\nCreates: 338 sent 339 failed\nCloses: 312 sent 327 failed\n" +
		"Flushes: 307 sent 325 failed\nReads: 303 sent 323 failed\nWrites: 305 sent 324 failed\nLocks: 308 sent 326 failed\n" +
		"IOCTLs: 340 sent 341 failed\nCancels: 342 sent 343 failed\nEchos: 344 sent 345 failed\nQueryDirectories: 346 sent 347 failed\n" +
		"ChangeNotifies: 348 sent 349 failed\nQueryInfos: 350 sent 351 failed\nSetInfos: 352 sent 353 failed\nOplockBreaks: 302 sent 354 failed\n"
	smb3 = "\nMax requests in flight: 9\n4) \\\\c\\three\nSMBs: 401 since 2026-01-02 03:04:05 UTC\nBytes read: 404  Bytes written: 406\n" +
		"Open files: 1 total (local), 2 open on server\nTreeConnects: 434 total 435 failed\nTreeDisconnects: 0 total 0 failed\n" +
		"Creates: 0 total 0 failed\nCloses: 412 total 427 failed\nFlushes: 0 total 0 failed\nReads: 403 total 423 failed\nWrites: 0 total 0 failed\n" +
		"Locks: 0 total 0 failed\nIOCTLs: 0 total 0 failed\nQueryDirectories: 0 total 0 failed\nChangeNotifies: 0 total 0 failed\n" +
		"QueryInfos: 0 total 0 failed\nSetInfos: 0 total 0 failed\nOplockBreaks: 402 sent 454 failed\n"
)

// The start of DebugData, and a server each: as Linux 6.16 writes it for SMB 3 and for SMB 1, and as 5.4.
const (
	debugHead = "Display Internal CIFS Data Structures for Debugging\n---------------------------------------------------\n" +
		"CIFS Version 2.10\nFeatures: DFS,STATS\nCIFSMaxBufSize: 16384\nActive VFS Requests: 5\n\nServers: \n"
	server6 = "1) ConnectionId: 0x2 Hostname: srv \nClientGUID: EA4A6FB2-9EDF\nNumber of credits: 1460,1,1 Dialect 0x311\n" +
		"Server capabilities: 0x300047\nTCP status: 1 Instance: 2\nLocal Users To Server: 3 SecMode: 0x7 Req On Wire: 4 Net namespace: 4026531840 \n" +
		"In Send: 6 In MaxReq Wait: 8\nCompression: no built-in support\n\n" +
		"\tSessions: \n\t1) Address: 192.0.2.1 Uses: 11 Capability: 0x30\tSession Status: 12 \n" +
		"\tSecurity type: RawNTLMSSP  SessionId: 0xda27 encrypted(gcm)\n\tUser: 1000 Cred User: 1001\n\n" +
		"\t\tChannel: 2 ConnectionId: 0x9\n\t\tTCP status: 99 Instance: 99\n\n" +
		"\tShares: \n\t0) IPC: \\\\srv\\IPC$ Mounts: 21 DevInfo: 0x0 Attributes: 0x1\n\tPathComponentMax: 0 Status: 22 type: 0 Serial Number: 0x3\n" +
		"\tShare Capabilities: None\tShare Flags: 0x0\n\ttid: 0xcf\tMaximal Access: 0x1f00a9\n\n" +
		"\t1) \\\\srv\\music Mounts: 31 DevInfo: 0x20 Attributes: 0x1006f\n\tPathComponentMax: 255 Status: 32 type: DISK Serial Number: 0xde\n" +
		"\tShare Capabilities: None Aligned,\tShare Flags: 0x0\n\ttid: 0xe3\tOptimal sector size: 0x200\tMaximal Access: 0x1f01ff\n\n\n" +
		"\tServer interfaces: 1\tLast updated: 39 seconds ago\n\t1)\tSpeed: Unknown\n\t\tIPv4: 192.0.2.1\n\n\tMIDs: \n--\n\n"
	server6SMB1 = "2) ConnectionId: 0x4 Hostname: nas \nNumber of credits: 50 Dialect 0x0\nTCP status: 1 Instance: 1\n" +
		"Local Users To Server: 1 SecMode: 0x3 Req On Wire: 0\nIn Send: 0 In MaxReq Wait: 0\n\n" +
		"\tSessions: \n\t1) Name: 192.0.2.2  Domain: WORKGROUP Uses: 99 OS: Unix \n\tNOS: Samba 4.9\tCapability: 0x80f3fd\n\tSMB session status: 99 \n" +
		"\tSecurity type: RawNTLMSSP  SessionId: 0x99\n\tUser: 99 Cred User: 99\n\n\tShares: \n\t0) IPC: none\n\n" +
		"\t1) \\\\nas\\data Mounts: 51 Type: NTFS DevInfo: 0x22 Attributes: 0x2f\n\tPathComponentMax: 255 Status: 52 type: DISK Serial Number: 0x5\n\n\n\tMIDs: \n--\n"
	server5 = "Number of credits: 77 Dialect 0x311\n3) Name: 192.0.2.3 Uses: 99 Capability: 0x99\tSession Status: 99 TCP status: 99 Instance: 99\n" +
		"\tLocal Users To Server: 99 SecMode: 0x99 Req On Wire: 99 In Send: 99 In MaxReq Wait: 99 SessionId: 0x99\n\tShares:\n" +
		"\t0) IPC: \\\\old\\IPC$ Mounts: 61 DevInfo: 0x0 Attributes: 0x0\n\tPathComponentMax: 0 Status: 62 type: 0 Serial Number: 0x6\n" +
		"\tShare Capabilities: None\tShare Flags: 0x30\n\ttid: 0x66\tMaximal Access: 0x11f01ff\n\n" +
		"\t1) \\\\old\\share Mounts: 41 DevInfo: 0x21 Attributes: 0x1007\n\tPathComponentMax: 255 Status: 1 type: DISK Serial Number: 0x4\n" +
		"\tShare Capabilities: None\tShare Flags: 0x0\tDISCONNECTED \n\n\tMIDs:\n"
)

func newHarness(tb testing.TB, stats, debugData string) *pmdatest.Harness {
	tb.Helper()
	return newHarnessAt(tb, pmdatest.Tree(tb, map[string]string{"Stats": stats, "DebugData": debugData}))
}

func newHarnessAt(tb testing.TB, dir string) *pmdatest.Harness {
	tb.Helper()
	h := newHost(121, Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	a, err := h.agent()
	if err != nil {
		tb.Fatal(err)
	}
	return pmdatest.New(tb, 121, a, h.metrics())
}

func TestAgent(t *testing.T) {
	newHarness(t, head+smb1+smb2, debugHead+server6).CheckAgent()
}

// Names, PMIDs and descriptors are those of pmdacifs of 7.2.1.
func TestDescribed(t *testing.T) {
	r := newHarness(t, "", "")
	namer, texter := r.Agent.(agents.Namer), r.Agent.(agents.Texter)
	text, err := os.ReadFile("testdata/metrics.tsv")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n")
	if n := strings.Count(table, "\n"); n != 98 || len(r.Metrics) != n {
		t.Errorf("%d metrics, want %d", len(r.Metrics), n)
	}
	types := map[pdu.MetricType]string{pdu.MetricU32: "u32", pdu.MetricU64: "u64", pdu.MetricString: "string"}
	for want := range strings.Lines(table) {
		name, want, _ := strings.Cut(strings.TrimSpace(want), "\t")
		id, err := namer.PMID(t.Context(), agents.Origin{}, name)
		var d pdu.Desc
		if err == nil {
			err = r.Do(&pdu.DescReq{PMID: id}, &d)
		}
		indom, units := "none", map[pdu.Units]string{0: "none", pdu.Count: "count"}[d.Units]
		if d.InDom != pdu.NoInDom {
			indom = d.InDom.String()
			if text, err := texter.InDomText(t.Context(), agents.Origin{}, d.InDom, true); err != nil || text == "" {
				t.Errorf("help of %s: %q, %v", indom, text, err)
			}
		}
		sem := map[pdu.Sem]string{pdu.SemInstant: "instant", pdu.SemDiscrete: "discrete"}[d.Sem]
		if got := strings.Join([]string{id.String(), types[d.ValueType], indom, sem, units}, "\t"); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
		if text, err := texter.Text(t.Context(), agents.Origin{}, id, true); err != nil || text == "" || len(text) > 80 {
			t.Errorf("help of %s: %q, %v", name, text, err)
		}
	}
}

// In these files the number of a counter of a share is its item and a hundred for each share.
func TestShares(t *testing.T) {
	r := newHarness(t, head+smb1+smb1Late+smb2+smb3, debugHead)
	r.Want(map[string]string{
		"cifs.session": "1", "cifs.shares": "2", "cifs.buffer": "3", "cifs.pool_size": "4", "cifs.small_buffer": "5", "cifs.small_pool_size": "6",
		"cifs.mid_operations": "9", "cifs.total_operations": "10", "cifs.total_reconnects": "11", "cifs.vfs_operations": "12",
		"cifs.vfs_operations_max": "13", "cifs.version": "2.10", "cifs.fs.connected": `\\a\one=1 \\a\late=0 \\b\two=1 \\c\three=1`,
		"cifs.fs.write_bytes": `\\a\one=18446744073709551615 \\c\three=406`,
	})
	items := func(list ...int) map[int]bool { // that a share has, and are not 0
		m := map[int]bool{}
		for _, i := range list {
			m[i] = true
		}
		return m
	}
	var all1, all2 []int
	for i := range 55 {
		if i > 0 && i < 23 && i != 6 {
			all1 = append(all1, i)
		}
		if i == 1 || i == 2 || i == 3 || i == 5 || i == 7 || i == 8 || i == 12 || i > 22 {
			all2 = append(all2, i)
		}
	}
	has := []map[int]bool{items(all1...), items(1, 2, 3, 4), items(all2...), items(1, 2, 3, 4, 12, 23, 27, 34, 35, 54)}
	for name, m := range r.Metrics {
		if m.Cluster != share || m.Item == 0 || m.Item == 6 {
			continue
		}
		var want []string
		for i, inst := range []string{`\\a\one`, `\\a\late`, `\\b\two`, `\\c\three`} {
			if has[i][m.Item] {
				want = append(want, fmt.Sprintf("%s=%d", inst, (i+1)*100+m.Item))
			}
		}
		got := strings.TrimSuffix(r.Values(name), ` \\c\three=0`)
		if got = strings.TrimPrefix(got, `\\c\three=0`); got != strings.Join(want, " ") && !(want == nil && got == none) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Each case has the values of debug metrics. What is 99 is of a session whose line has Name:, or of another channel.
func TestDebugData(t *testing.T) {
	r := newHarness(t, head, debugHead+server6+server6SMB1+server5)
	for name, want := range map[string]string{
		"max_buffer_size": "16384", "active_vfs_requests": "5",
		"servers.connection_id": "srv=0x2 nas=0x4", "servers.hostname": "srv=srv nas=nas", "servers.client_guid": "srv=EA4A6FB2-9EDF",
		"servers.number_of_credits": "srv=1460 nas=50", "servers.server_capabilities": "srv=0x300047", "servers.tcp_status": "srv=1 nas=1",
		"servers.instance": "srv=2 nas=1", "servers.local_users_to_server": "srv=3 nas=1", "servers.security_mode": "srv=0x7 nas=0x3",
		"servers.requests_on_wire": "srv=4 nas=0", "servers.net_namespace": "srv=4026531840", "servers.send": "srv=6 nas=0",
		"servers.max_request_wait": "srv=8 nas=0",
		"sessions.addr":            "192.0.2.1::1=192.0.2.1", "sessions.uses": "192.0.2.1::1=11", "sessions.capability": "192.0.2.1::1=0x30", "sessions.status": "192.0.2.1::1=12",
		"sessions.security_type": "192.0.2.1::1=RawNTLMSSP", "sessions.id": "192.0.2.1::1=0xda27", "sessions.user": "192.0.2.1::1=1000", "sessions.cred_user": "192.0.2.1::1=1001",
		"shares.mounts":         `\\srv\IPC$=21 \\srv\music=31 \\nas\data=51 \\old\IPC$=61 \\old\share=41`,
		"shares.devinfo":        `\\srv\IPC$=0x0 \\srv\music=0x20 \\nas\data=0x22 \\old\IPC$=0x0 \\old\share=0x21`,
		"shares.attributes":     `\\srv\IPC$=0x1 \\srv\music=0x1006f \\nas\data=0x2f \\old\IPC$=0x0 \\old\share=0x1007`,
		"shares.status":         `\\srv\IPC$=22 \\srv\music=32 \\nas\data=52 \\old\IPC$=62 \\old\share=1`,
		"shares.type":           `\\srv\IPC$=0 \\srv\music=DISK \\nas\data=DISK \\old\IPC$=0 \\old\share=DISK`,
		"shares.serial_number":  `\\srv\IPC$=0x3 \\srv\music=0xde \\nas\data=0x5 \\old\IPC$=0x6 \\old\share=0x4`,
		"shares.tid":            `\\srv\IPC$=0xcf \\srv\music=0xe3 \\old\IPC$=0x66`,
		"shares.maximal_access": `\\srv\IPC$=0x1f00a9 \\srv\music=0x1f01ff \\old\IPC$=0x11f01ff`,
	} {
		t.Run(name, func(t *testing.T) {
			if got := r.Values("cifs.debug." + name); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// Each case is a text that kernels do not write, or seldom.
func TestOdd(t *testing.T) {
	for _, tt := range []struct{ name, stats, debugData, metric, want string }{
		{"no share", head, debugHead, "fs.smbs", ""},
		{"an empty file", "", "", "session", ""},
		{"no version", head, "", "version", ""},
		{"a version without a number", head, "CIFS Version\n", "version", ""},
		{"a share without counters", "1) \\\\a\\b", "", "fs.connected", `\\a\b=1`},
		{"counters that no share has", "1) \\\\a\\b\n", "", "fs.smbs", none},
		{"a number that is none", "1) \\\\a\\b\nSMBs: x\n", "", "fs.smbs", none},
		{"a number of more than 64 bits", "1) \\\\a\\b\nSMBs: 18446744073709551616\n", "", "fs.smbs", none},
		{"a negative number", "1) \\\\a\\b\nSMBs: -1\n", "", "fs.smbs", ""},
		{"a line that ends early", "1) \\\\a\\b\nReads: 5 total\nReads:\n", "", "fs.read", none},
		{"counters of no share", "SMBs: 5\n1) \\\\a\\b\n", "", "fs.smbs", none},
		{"counters after a server that is no share", "1) \\\\a\\b\n2) x\nSMBs: 5\n", "", "fs.smbs", none},
		{"a share twice", "1) \\\\a\\b\nSMBs: 5\n2) \\\\a\\b\nSMBs: 6\n", "", "fs.smbs", `\\a\b=5`},
		{"a share with a blank", "1) \\\\a\\b c\nSMBs: 5\n2) \\\\a\\b d\tDISCONNECTED\nSMBs: 6\n", "", "fs.smbs", `\\a\b=5`},
		{"a disconnected share with a blank", "1) \\\\a\\b c d\tDISCONNECTED \nSMBs: 5\n", "", "fs.connected", `\\a\b=0`},
		{"a mounted share with a blank", "", "\t1) \\\\a\\b c d Mounts: 5 DevInfo: 0x0 Attributes: 0x7\n", "debug.shares.attributes", `\\a\b=0x7`},
		{"an IPC with a blank", "", "\t0) IPC: \\\\a b\\IPC$ Mounts: 5 Type: x DevInfo: 0x3 Attributes: 0x0\n", "debug.shares.devinfo", `\\a=0x3`},
		{"a long line", "1) \\\\a\\b\n" + strings.Repeat("x", 40000) + "\nSMBs: 5\n", "", "fs.smbs", `\\a\b=5`},
		{"lines of the other file", "CIFSMaxBufSize: 5\n1) \\\\a\\b Mounts: 5\n", "1) \\\\a\\b\nSMBs: 5\nCIFS Session: 5\n", "debug.shares.mounts", ""},
		{"a session in the other file", "1) Address: a Uses: 5\n", "", "debug.sessions.addr", ""},
		{"a share that another begins with", "", "\t1) \\\\a\\bc Mounts: 5 DevInfo: 0x0 Attributes: 0x0\n\t2) \\\\a\\b Mounts: 6 DevInfo: 0x0 Attributes: 0x0\n",
			"debug.shares.mounts", `\\a\bc=5 \\a\b=6`},
		{"a server without a name", "", "1) ConnectionId: 0x1\nTCP status: 5 Instance: 6\n", "debug.servers.tcp_status", ""},
		{"a server that is indented", "", "\t1) ConnectionId: 0x1 Hostname: a\n", "debug.servers.tcp_status", ""},
		{"a session after a server", "", server6 + "2) ConnectionId: 0x3 Hostname: b\nUser: 9 Cred User: 9\n", "debug.sessions.user", "192.0.2.1::1=1000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := newHarness(t, tt.stats, tt.debugData).Values("cifs." + tt.metric); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// Ids last as long as the agent, in the order of the file. On a host without CIFS all metrics
// have the error of the file, and without DebugData only its own have no values.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	r := newHarnessAt(t, dir)
	const missing = "no such file or directory"
	if got := r.Values("cifs.session"); !strings.Contains(strings.ToLower(got), missing) {
		t.Errorf("no file: %s", got)
	}
	pmdatest.WriteFile(t, dir, "Stats", head+smb2+smb1)
	r.Want(map[string]string{"cifs.fs.smbs": `\\b\two=301 \\a\one=101`, "cifs.version": "", "cifs.debug.max_buffer_size": "", "cifs.debug.servers.send": ""})
	pmdatest.WriteFile(t, dir, "Stats", head+smb3+smb1)
	pmdatest.WriteFile(t, dir, "DebugData", debugHead)
	r.Want(map[string]string{"cifs.fs.smbs": `\\a\one=101 \\c\three=401`, "cifs.version": "2.10"})
	if got := fmt.Sprint(r.Instances(0)); got != `[{1 \\a\one} {2 \\c\three}]` {
		t.Errorf("instances: %s", got)
	}
	var b strings.Builder
	for i := range maxInstances + 1 {
		fmt.Fprintf(&b, "%d) \\\\a\\%d\n", i, i)
	}
	pmdatest.WriteFile(t, dir, "Stats", b.String())
	if got := r.Values("cifs.fs.smbs"); got == none || strings.Contains(got, "=") {
		t.Errorf("too many: %.200s", got)
	}
	pmdatest.WriteFile(t, dir, "Stats", head+smb1)
	_ = r.Instances(0) // ids of so many shares that have gone are not kept
	r.Want(map[string]string{"cifs.fs.smbs": `\\a\one=101`})
	pmdatest.WriteFile(t, dir, "Stats", head+smb2+smb1)
	if got := fmt.Sprint(r.Instances(0)); got != `[{1 \\a\one} {10003 \\b\two}]` {
		t.Errorf("instances: %s", got)
	}
	if err := os.Remove(filepath.Join(dir, "Stats")); err != nil {
		t.Fatal(err)
	}
	if got := r.Values("cifs.version"); !strings.Contains(strings.ToLower(got), missing) {
		t.Errorf("no file again: %s", got)
	}
}

// An error of DebugData is that of cifs.debug only, and says what there is too much of.
func TestDebugDataError(t *testing.T) {
	dir := pmdatest.Tree(t, map[string]string{"Stats": head + smb1, "DebugData/x": ""})
	var log bytes.Buffer
	h := newHost(121, Options{Dir: dir, Log: slog.New(serve.NewHandler(&log, "pmda", slog.LevelInfo))})
	a, err := h.agent()
	if err != nil {
		t.Fatal(err)
	}
	r := pmdatest.New(t, 121, a, h.metrics())
	check := func(wantErr, wantLog string) {
		t.Helper()
		log.Reset()
		r.Want(map[string]string{"cifs.fs.smbs": `\\a\one=101`, "cifs.session": "1"})
		for _, name := range []string{"max_buffer_size", "servers.send", "sessions.uses", "shares.mounts"} {
			if got := r.Values("cifs.debug." + name); got != wantErr {
				t.Errorf("%s: %s, want %s", name, got, wantErr)
			}
		}
		if got := log.String(); !strings.Contains(got, wantLog) {
			t.Errorf("log:\n%s\nwant %s", got, wantLog)
		}
	}
	check("is a directory", "")
	if err := os.RemoveAll(filepath.Join(dir, "DebugData")); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range maxInstances + 1 {
		fmt.Fprintf(&b, "\t%d) \\\\a\\%d Mounts: 1\n", i, i)
	}
	pmdatest.WriteFile(t, dir, "DebugData", debugHead+b.String())
	check("unspecified error", dir+"/DebugData: more than 10,000 shares, servers or sessions: their metrics have no values until fewer shares are mounted")
	r.Want(map[string]string{"cifs.version": "2.10"})
	pmdatest.WriteFile(t, dir, "DebugData", debugHead+server6)
	r.Want(map[string]string{"cifs.debug.servers.send": "srv=6"})
}

// A fetch that ends early leaves nothing behind. Each header of a share is a place where a fetch can end.
func TestEndsWithContext(t *testing.T) {
	few := pmdatest.CheckEnds(t, func() *pmdatest.Harness { return newHarness(t, head+smb1+smb2, debugHead+server6) })
	many := pmdatest.CheckEnds(t, func() *pmdatest.Harness { return newHarness(t, head+strings.Repeat(smb1, 70)+smb2, debugHead+server6) })
	if many <= few {
		t.Errorf("%d looks at the context with 71 shares, %d with 2", many, few)
	}
}

// There are no more instances than words like 1), and a newline at the end makes no difference.
func FuzzFiles(f *testing.F) {
	for _, text := range []string{head + smb1, smb2, smb3, smb1Late, debugHead + server6, server5, server6[:len(server6)/2], server6SMB1, "1) \\\\\n", "1) IPC:\n1) Address: x\n)\n"} {
		f.Add(text, true)
		f.Add(text, false)
	}
	dump := func(t *testing.T, text string, isDebug bool) (got string, n int) {
		h := newHost(121, Options{})
		p := &h.parser
		p.begin(func() error { return nil })
		p.debug = isDebug
		for line := range strings.SplitSeq(text, "\n") {
			if err := p.line([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		for k, c := range p.instances {
			if c == nil {
				continue
			}
			c.Each(func(_ int32, name string, data any) bool {
				got += fmt.Sprintf("%d %q %q\n", k, name, data)
				n++
				return true
			})
		}
		return got, n
	}
	dir := pmdatest.Tree(f, map[string]string{"Stats": "", "DebugData": ""})
	r := newHarnessAt(f, dir)
	fetch := r.Repeat(slices.Collect(maps.Keys(r.Metrics))...)
	f.Fuzz(func(t *testing.T, text string, isDebug bool) {
		got, n := dump(t, text, isDebug)
		if n > strings.Count(text, ")") {
			t.Errorf("%q has %d instances", text, n)
		}
		if again, _ := dump(t, text+"\n", isDebug); again != got {
			t.Errorf("%q has\n%s, with a newline\n%s", text, got, again)
		}
		pmdatest.WriteFile(t, dir, map[bool]string{false: "Stats", true: "DebugData"}[isDebug], text)
		fetch()
	})
}
