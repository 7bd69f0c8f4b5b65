package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// startPmcd starts a pmcd with built-in agents and with access rules.
func startPmcd(t *testing.T, access string) *peer.Daemon {
	t.Helper()
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	etc := t.TempDir()
	if err := os.Mkdir(filepath.Join(etc, "labels"), 0o755); err != nil {
		t.Fatal(err)
	}
	mounts := filepath.Join(etc, "mountstats")
	write(t, mounts, "")
	d, err := peer.Start(path, peer.Config{
		Bare: true,
		Env:  []string{"PCP_SYSCONF_DIR=" + etc, "NFSCLIENT_MOUNTSTATS_PATH=" + mounts},
		Agents: []string{"pmcd 2 dso pmcd_init /none", "nfsclient 62 dso nfsclient_init builtin", "simple 253 dso simple_init /none",
			"gone 254 pipe binary /no/such/file"},
		Access: access,
		PMNS: `root { pmcd nfsclient 62:*:* simple gone }
pmcd { numclients 2:0:3 timezone 2:0:5 hostname 2:0:21 }
simple { numfetch 253:0:0 color 253:0:1 time now 253:2:4 }
simple.time { user 253:1:2 sys 253:1:3 }
gone { x 254:0:0 }
`,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	noConf(t)
	return d
}

// noConf makes the environment that of a host without PCP.
func noConf(t *testing.T) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "pcp.conf")
	write(t, conf, "")
	t.Setenv("PCP_CONF", conf)
	t.Setenv("PMCD_HOST", "")
	t.Setenv("PMCD_REQUEST_TIMEOUT", "120")
}

// The commands for metrics, in order.
func TestMetrics(t *testing.T) {
	d := startPmcd(t, "")
	unix, tcp := d.Host(peer.Unix), d.Host(peer.TCP4)
	for _, tt := range []struct {
		args           string // words separated by blanks; an underscore is a blank in a word
		code           int
		stdout, stderr string // patterns; {} is anything
	}{
		{"list", 0, "pmcd.{}simple.numfetch\nsimple.color\nsimple.time.user\nsimple.time.sys\nsimple.now\ngone.x\n", ""},
		{"list simple.time", 0, "simple.time.user\nsimple.time.sys\n", ""},
		{"list simple.time.", 0, "simple.time.user\nsimple.time.sys\n", ""},
		{"list sim", 0, "simple.numfetch\nsimple.color\nsimple.time.user\nsimple.time.sys\nsimple.now\n", ""},
		{"list simple.n", 0, "simple.numfetch\nsimple.now\n", ""},
		{"list fetch", 0, "simple.numfetch\n", ""},
		{"list TIME.u", 0, "simple.time.user\n", ""},
		{"list GROW", 0, "simple.color\n", ""},
		{"list simple.x", 1, "", "pmcdctl: there is no metric simple.x (pmcdctl list simple shows those that exist)\n"},
		{"list simpel", 1, "", "pmcdctl: there is no metric simpel: did you mean simple?\n"},
		{"list -l simple.time", 0, "simple.time.user  double  counter  sec  {}\nsimple.time.sys   double  counter  sec  {}\n", ""},
		{"list -l gone", 0, "gone.x  -  -  -  {}no agent for the domain{}", ""},
		{"list --json simple.time", 0, "{}\"name\": \"simple.time.sys\"\n{}", ""},

		{"get simple.color[red] simple.color[blue]", 0, "simple.color[red]   1\nsimple.color[blue]  201\n", ""},
		{"get simple.color", 0, "simple.color[red]    {}\nsimple.color[green]  {}\nsimple.color[blue]   {}\n", ""},
		{"get pmcd.hostname", 0, "pmcd.hostname  \"{}\"\n", ""},
		{"get simple.time", 0, "simple.time.{}  {} sec\nsimple.time.{}  {} sec\n", ""},
		{"get simple.time nothing", 1, "simple.time{}", "pmcdctl: there is no metric nothing (pmcdctl list shows those that exist)\n"},
		{"get nfsclient", 0, "nfsclient.export  {}\nnfsclient.ops.layouterror.errors  {}no values\n", ""}, // the agent has the names
		{"get nfsclient.pages", 0, "nfsclient.pages.read   no values\nnfsclient.pages.write  no values\n", ""},
		{"get nfsclient.page", 1, "", "pmcdctl: there is no metric nfsclient.page: did you mean nfsclient.age, nfsclient.pages?\n"},
		{"get gone.x simple.numfetch", 1, "gone.x           no value: no agent for the domain (pmcdctl status shows why the agent is down)\nsimple.numfetch  {}\n", ""},
		{"get simple.color[pink]", 1, "simple.color[pink]  no value: no such instance\n", ""},
		{"get simple.numfetch[red]", 1, "simple.numfetch[red]  no value: no such instance\n", ""},
		{"get simple.colour", 1, "", "pmcdctl: there is no metric simple.colour: did you mean simple.color?\n"},

		{"describe simple.color", 0, "simple.color\n    {}\n\n    type       32\n    semantics  instant, changes at any time\n    units      none\n" +
			"    PMID       253.0.1\n    instances  3 of domain 253.0: red, green, blue\n    labels     {{}\"model\":\"RGB\"{}}\n\n    {}", ""},
		{"describe gone.x", 1, "gone.x\n    no agent for the domain (pmcdctl status shows why the agent is down)\n", ""},
		{"describe simple.time", 0, "simple.time.{}\n\nsimple.time.{}", ""},
		{"describe x", 1, "", "pmcdctl: there is no metric x (pmcdctl list shows those that exist)\n"},

		{"set simple.color[red] 7", 0, "simple.color[red]: {} -> 8\n", ""}, // each fetch adds 1
		{"set simple.numfetch 42", 0, "simple.numfetch: {} -> 43\n", ""},
		{"set --json simple.color[red] 9", 0, "{\n  \"name\": \"simple.color\",\n  \"instance\": \"red\",\n  \"old\": 9,\n  \"new\": 10\n}\n", ""},
		{"set -- simple.color[red] -1", 1, "", "pmcdctl: simple.color[red]: store: value cannot be stored\n"},
		{"set simple.color 7", 1, "", "pmcdctl: simple.color: name the instance: they are red, green, blue, as in 'simple.color[red]'\n"},
		{"set simple.color[pink] 7", 1, "", "pmcdctl: simple.color: there is no instance \"pink\": they are red, green, blue, as in 'simple.color[red]'\n"},
		{"set simple.numfetch[red] 7", 1, "", "pmcdctl: simple.numfetch has no instances: leave out [red]\n"},
		{"set simple.numfetch seven", 1, "", "pmcdctl: simple.numfetch has type u32: \"seven\": value cannot be converted\n"},
		{"set simple 7", 1, "", "pmcdctl: simple is not a metric (pmcdctl list simple shows those below it)\n"},
		{"set simple.numbfetch 7", 1, "", "pmcdctl: there is no metric simple.numbfetch: did you mean simple.numfetch?\n"},
		{"set gone.x 7", 1, "", "pmcdctl: {}no agent for the domain (pmcdctl status shows why the agent is down)\n"},

		{"watch -t 10ms -s 2 simple.color[green]", 0, "{}  simple.color[green]  {}\n{}  simple.color[green]  {}\n", ""},
		{"watch -t 10ms -s 1 simple.time", 0, "{}  simple.time.{}  {}%\n{}  simple.time.{}  {}%\n", ""},
		{"watch -t 10ms -s 1 --json pmcd.hostname", 0, "{\"time\":\"{}\",\"metrics\":[{\"name\":\"pmcd.hostname\",{}\"values\":[{\"value\":\"{}\"}]}]}\n", ""},
		{"watch -t 10ms -s 1 gone.x", 1, "{}  gone.x  no value: no agent for the domain\n", ""},

		{"compare -t 10ms -h {unix} -h {tcp} pmcd.hostname simple.color", 0, "{}\nA is {}\nB is {}\n2 metrics and 4 values of both compared, no differences\n", ""},
		{"compare -t 10ms -h {unix} -h {unix} -x gone", 0, "{}, no differences\n", ""},
		{"compare -h {unix} -h {tcp} nothing", 2, "", "pmcdctl: there are no such metrics (pmcdctl list shows those that exist)\n"},
		{"compare -s 1 --json -h {unix} -h {unix} simple.now", 0, "{}\"differences\": []{}", ""},
		{"snapshot -s 2 -t 10ms simple.color", 0, "{\n  \"format\": 1,\n{}\"name\": \"simple.color\",\n{}\"instance\": \"red\",\n          \"samples\": 2,\n{}", ""},
		{"snapshot nothing", 1, "", "pmcdctl: there are no such metrics (pmcdctl list shows those that exist)\n"},
	} {
		args := strings.NewReplacer("{unix}", unix, "{tcp}", tcp).Replace(tt.args)
		words := strings.Fields(args)
		if words[0] != "compare" {
			words = slices.Insert(words, 1, "-h", unix)
		}
		t.Run(tt.args, func(t *testing.T) {
			code, stdout, stderr := runHere(words...)
			if code != tt.code || !matches(tt.stdout, stdout) || !matches(tt.stderr, stderr) {
				t.Errorf("exit code %d, want %d\n%s\n%s\nwant\n%s\n%s", code, tt.code, stdout, stderr, tt.stdout, tt.stderr)
			}
		})
	}

	// Snapshots, of which one has a metric more.
	file := filepath.Join(t.TempDir(), "before.json")
	_, text, _ := runHere("snapshot", "-s", "2", "-t", "10ms", "-h", unix, "-x", "simple.now")
	write(t, file, text)
	for _, tt := range []struct {
		args   []string
		code   int
		stdout string
	}{
		{[]string{"-f", file, "-f", file}, 0, "{}, no differences\n"},
		{[]string{"-f", file, "-h", tcp, "-x", "simple.now", "-x", "nothing"}, 0, "{}, no differences\n"},
		{[]string{"-f", file, "-h", unix, "simple.now"}, 1, "METRIC      DIFFERENCE  A       B\nsimple.now  name        absent  present\n{}"},
		{[]string{"-f", file + "x", "-h", unix}, 2, ""},
	} {
		if code, stdout, stderr := runHere(append([]string{"compare", "-t", "10ms"}, tt.args...)...); code != tt.code || !matches(tt.stdout, stdout) {
			t.Errorf("%v: exit code %d\n%s\n%s", tt.args, code, stdout, stderr)
		}
	}

	// A client that may not store.
	refusing := startPmcd(t, "disallow \"*\" : store;\n")
	code, stdout, stderr := runHere("set", "-h", refusing.Host(peer.Unix), "simple.numfetch", "1")
	if code != exitProblems || stdout != "" || !matches("pmcdctl: simple.numfetch: store: not allowed (the section [access] of pmcd.conf, or the agent, does not allow it to this user)\n", stderr) {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	// The host of the environment.
	t.Setenv("PMCD_HOST", unix)
	if code, stdout, stderr := runHere("get", "simple.color[green]"); code != 0 || !matches("simple.color[green]  {}\n", stdout) {
		t.Errorf("PMCD_HOST: exit code %d\n%s\n%s", code, stdout, stderr)
	}
	// The socket of this host.
	t.Setenv("PMCD_HOST", "")
	t.Chdir(filepath.Dir(d.Sock))
	for _, path := range []string{d.Sock, filepath.Base(d.Sock)} {
		t.Setenv("PMCD_SOCKET", path)
		if code, stdout, stderr := runHere("get", "simple.color[green]"); code != 0 || !matches("simple.color[green]  {}\n", stdout) {
			t.Errorf("PMCD_SOCKET=%s: exit code %d\n%s\n%s", path, code, stdout, stderr)
		}
	}
}

// matches reports whether text is pattern, in which {} is any text.
func matches(pattern, text string) bool {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(pattern), regexp.QuoteMeta("{}"), "(?s:.*)")
	return regexp.MustCompile("^" + quoted + "$").MatchString(text)
}

// JSON has the values and what they are.
func TestMetricsJSON(t *testing.T) {
	d := startPmcd(t, "")
	code, stdout, stderr := runHere("get", "--json", "-h", d.Host(peer.Unix), "simple.color", "pmcd.hostname", "gone.x")
	var got struct {
		Time    string
		Metrics []struct {
			Name, PMID, Type, Semantics, Units, InDom, Error string
			Values                                           []struct {
				Instance string
				ID       *int
				Value    any
			}
		}
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitProblems || len(got.Metrics) != 3 {
		t.Fatalf("exit code %d, %v\n%s\n%s", code, err, stdout, stderr)
	}
	color, host, gone := got.Metrics[0], got.Metrics[1], got.Metrics[2]
	if color.PMID != "253.0.1" || color.Type != "32" || color.Semantics != "instant" || color.Units != "none" || color.InDom != "253.0" ||
		len(color.Values) != 3 || color.Values[2].Instance != "blue" || *color.Values[2].ID != 2 || color.Values[0].Value != 1.0 {
		t.Errorf("%+v", color)
	}
	if len(host.Values) != 1 || host.Values[0].ID != nil || host.Values[0].Value == "" || host.InDom != "" {
		t.Errorf("%+v", host)
	}
	if gone.Error == "" || gone.Values != nil {
		t.Errorf("%+v", gone)
	}
}

// Without a pmcd the exit code is 2, and the error says what was tried and what to do.
func TestNoPmcd(t *testing.T) {
	dir := t.TempDir()
	port, err := peer.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	noConf(t)
	t.Setenv("PMCD_SOCKET", filepath.Join(dir, "none"))
	t.Setenv("PMCD_PORT", strconv.Itoa(port))
	for _, tt := range []struct{ args, stderr string }{
		{"list", fmt.Sprintf("no pmcd answers: %s/none: no such file or directory; {}:%d: connection refused (is pmcd running? systemctl status pmcd; -h names another host or socket)\n", dir, port)},
		{fmt.Sprintf("get -h 127.0.0.1:%d x", port), fmt.Sprintf("no pmcd answers: 127.0.0.1:%d: connection refused (is pmcd running there, and does it listen at that address?)\n", port)},
		{"watch -h unix:" + dir + "/none x", "no pmcd answers: " + dir + "/none: no such file or directory (is pmcd running there, and does it listen at that address?)\n"},
		{"set -h host: x 1", "-h: host specification: byte 5: no port (such as -h web1, -h pcps://web1:44321 or -h unix:/run/pcp/pmcd.socket)\n"},
		{"compare -h unix:" + dir + "/none -h x", "no pmcd answers: {}\n"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			code, stdout, stderr := runHere(strings.Fields(tt.args)...)
			if code != exitNone || stdout != "" || !matches("pmcdctl: "+tt.stderr, stderr) {
				t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
			}
		})
	}
}

// Names are completed one level at a time.
func TestCompletion(t *testing.T) {
	was := completionTime
	completionTime = testutil.Hangs
	t.Cleanup(func() { completionTime = was })
	d := startPmcd(t, "")
	host := d.Host(peer.Unix)
	for _, tt := range []struct{ args, want string }{
		{"list -h {} ", "pmcd.\nnfsclient.\nsimple.\ngone.\n:6\n"},
		{"list -h {} sim", "simple.\n:6\n"},
		{"get -h {} simple.n", "simple.numfetch\nsimple.now\n:4\n"},
		{"get -h {} simple.now simple.t", "simple.time.\n:6\n"},
		{"set -h {} simple.now ", ":4\n"},
		{"list -h {} pmcd ", ":4\n"},
		{"compare -h {} -h {} pm", "pmcd.\n:6\n"},
		{"watch -h /none pm", ":4\n"},
		{"completion ", "bash\nzsh\nfish\n:4\n"},
		{"watch --sam", "--samples\tnumber of samples; 0 is no end\n:4\n"},
	} {
		words := append([]string{"__complete"}, strings.Split(strings.ReplaceAll(tt.args, "{}", host), " ")...)
		if code, stdout, stderr := runHere(words...); code != 0 || stdout != tt.want {
			t.Errorf("%s: exit code %d\n%s\n%s", tt.args, code, stdout, stderr)
		}
	}
	// The files are what is installed.
	for shell, file := range map[string]string{"bash": "pmcdctl.bash", "zsh": "_pmcdctl", "fish": "pmcdctl.fish"} {
		text, err := os.ReadFile("../../../etc/completions/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if code, stdout, stderr := runHere("completion", shell); code != 0 || stdout != string(text) {
			t.Errorf("%s: exit code %d\n%s\netc/completions/%s is not what pmcdctl completion %[1]s prints", shell, code, stderr, file)
		}
	}
}

// A shell gets no name that it would expand, evaluate or print as it is.
func TestCompletionOfHostileNames(t *testing.T) {
	children := []pdu.Child{{Name: "a_1", Leaf: true}, {Name: "A"}}
	for _, name := range []string{"$(x)", "`x`", "a;x", "a b", "a\tb", "a\nb", "_activeHelp_ \x1b[2J", "a.b", "a:b", "\u00e4", "\xff"} {
		children = append(children, pdu.Child{Name: name, Leaf: true})
	}
	if names, _ := completions(children, "x", ""); !slices.Equal(names, []string{"x.a_1", "x.A."}) {
		t.Errorf("got %q", names)
	}
}

// Commands that are run at the same time have nothing in common.
func TestMetricsTogether(t *testing.T) {
	d := startPmcd(t, "")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if code, stdout, stderr := runHere("get", "-h", d.Host(peer.TCP4), "simple.color[green]"); code != 0 {
				t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
			}
		})
	}
	wg.Wait()
	if pids := pmcdtest.Running("/no/such/file"); len(pids) > 0 {
		t.Errorf("%d", pids)
	}
}

// The screen has no password.
func TestHostName(t *testing.T) {
	t.Setenv("PMCD_HOST", "pcps://web2?user=a&pass=s")
	for host, want := range map[string]string{
		"web1:44321": "web1:44321", "unix:/run/pcp/pmcd.socket": "unix:/run/pcp/pmcd.socket",
		"pcp://web1?user=a&pass=s": "web1?user=a", "": "pcps://web2?user=a",
	} {
		f := clientFlags{host: host}
		if got := f.name(); got != want {
			t.Errorf("%s: got %s, want %s", host, got, want)
		}
	}
}

func TestIntervalAndPart(t *testing.T) {
	for s, want := range map[string]string{
		"1": "1s", "0.5": "500ms", "500ms": "500ms", "500msec": "500ms", "2min": "2m0s", "2 mins": "2m0s", "1hour": "1h0m0s", "1m30s": "1m30s",
		"": "", "x": "", "0": "", "-1": "", "1ns": "", "1e9hours": "", "nan": "", "5 parsec": "",
	} {
		var i interval
		if err := i.Set(s); (err == nil) != (want != "") || err == nil && i.String() != want {
			t.Errorf("%q: %v, %v", s, i.String(), err)
		}
	}
	for s, want := range map[string]float64{"0": 0, "0.25": 0.25, "1": 1, "10%": 0.1, "100%": 1, "": -1, "2": -1, "-1%": -1, "nan": -1, "x": -1} {
		var p part
		if err := p.Set(s); (err == nil) != (want >= 0) || err == nil && float64(p) != want {
			t.Errorf("%q: %v, %v", s, p, err)
		}
	}
}
