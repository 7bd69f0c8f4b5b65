package peertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// A pmproxy on its own: no search for other hosts, no database.
const pmproxyConf = `
[pmproxy]
pcp.enabled = true
http.enabled = true
redis.enabled = false
[discover]
enabled = false
[pmseries]
enabled = false
`

// startProxy starts a pmproxy and returns its port and Unix socket.
func startProxy(t *testing.T, d *peer.Daemon) (port int, sock string) {
	t.Helper()
	return startProxyWith(t, d, pmproxyConf)
}

// startProxyWith is startProxy with another configuration and further environment.
func startProxyWith(t *testing.T, d *peer.Daemon, text string, env ...string) (port int, sock string) {
	t.Helper()
	conf := filepath.Join(d.Dir, "pmproxy.conf")
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	port, err := peer.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	sock = filepath.Join(d.Dir, "run", "pmproxy.socket")
	cl := client("pmproxy", "-f", "-A", "-U", "root", "-c", conf, "-p", strconv.Itoa(port), "-s", sock, "-l", "-")
	cl.Env = env
	d.Background(t, cl, func() error {
		for _, to := range [][2]string{{"tcp4", "127.0.0.1:" + strconv.Itoa(port)}, {"unix", sock}} {
			c, err := net.Dial(to[0], to[1])
			if err != nil {
				return err
			}
			c.Close()
		}
		return nil
	})
	return port, sock
}

// TestPmproxy puts a pmproxy between the clients and the daemons: as a relay of
// the clients' own protocol, and as a server of the REST API that is a client
// itself.
func TestPmproxy(t *testing.T) {
	p := servers(t)
	port, _ := startProxy(t, p.C)
	relays := []struct {
		name, host string
		env        []string
	}{
		{"host after @", "127.0.0.1:{port}@127.0.0.1:" + strconv.Itoa(port), nil},
		{"environment", "127.0.0.1:{port}", []string{"PMPROXY_HOST=127.0.0.1", "PMPROXY_PORT=" + strconv.Itoa(port)}},
	}
	for _, r := range relays {
		for _, c := range []struct {
			line string
			cmp  peer.Comparison
		}{
			{"pminfo -dfmtl sample simple pmcd.agent hinv", pminfo()},
			{"pminfo -f no.such 200.0.1 kvm.exits", pminfo()},
			{"pmprobe -v sample.bin sample.long", pmprobe()},
			{"pmval -s 3 -t 20msec -i bin-100,bin-300 sample.bin", peer.Comparison{Differences: differences}},
			{"pmstore sample.long.write_me 12", peer.Comparison{}},
		} {
			t.Run(r.name+"/"+c.line, func(t *testing.T) {
				cl := words(c.line)
				cl.Args = append([]string{cl.Args[0], "-h", r.host}, cl.Args[1:]...)
				cl.Env = r.env
				p.Compare(t, peer.TCP4, cl, c.cmp)
			})
		}
	}

}

// TestPmproxyREST uses pmproxy's REST API, over TCP and over its Unix socket.
func TestPmproxyREST(t *testing.T) {
	p := servers(t)
	for _, over := range []string{"tcp", "unix"} {
		for _, tr := range peer.Transports {
			t.Run(fmt.Sprintf("%s for %v", over, tr), func(t *testing.T) {
				usable(t, tr)
				// Each daemon has its own pmproxy, which keeps contexts.
				api := map[*peer.Daemon]restAPI{p.C: newRestAPI(t, p.C, over), p.Ours: newRestAPI(t, p.Ours, over)}
				for _, path := range []string{
					"context?hostspec={host}",
					"metric?hostspec={host}&names=sample.long.one,sample.bin,hinv.ncpu,simple.color",
					"metric?hostspec={host}&prefix=sample.secret.foo.bar.grunt",
					"fetch?hostspec={host}&names=sample.long.ten,sample.bin,sample.string.hullo,sample.double.million,hinv.ncpu",
					"fetch?hostspec={host}&names=no.such",
					"fetch?hostspec={host}&names=kvm.exits,sample.long.one",
					"indom?hostspec={host}&name=sample.bin",
					"children?hostspec={host}&prefix=sample",
					"children?hostspec={host}&prefix=no.such",
					"store?hostspec={host}&name=sample.long.write_me&value=3",
					"store?hostspec={host}&name=sample.long.one&value=3",
					"profile?hostspec={host}&name=sample.bin&expr=add",
				} {
					t.Run(path, func(t *testing.T) {
						p.CompareFunc(t, func(d *peer.Daemon) (peer.Output, error) {
							return api[d].get(t.Context(), d, tr, path)
						}, peer.Comparison{Split: jsonLines, Status: peer.AnyStatus, Rules: restRules, Differences: differences})
					})
				}
			})
		}
	}
}

var restRules = []peer.Rule{
	{Key: re(`"?(context|timestamp)"?`), How: peer.Shape, Why: "pmproxy numbers contexts at random"},
}

// restAPI is a pmproxy and a way to reach it.
type restAPI struct {
	http *http.Client
	port int
}

func newRestAPI(t *testing.T, d *peer.Daemon, over string) restAPI {
	t.Helper()
	port, sock := startProxy(t, d)
	tr := &http.Transport{}
	if over == "unix" {
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", sock)
		}
	}
	t.Cleanup(tr.CloseIdleConnections)
	return restAPI{&http.Client{Transport: tr}, port}
}

func (a restAPI) get(ctx context.Context, d *peer.Daemon, tr peer.Transport, path string) (peer.Output, error) {
	path = strings.ReplaceAll(path, "{host}", url.QueryEscape(d.Host(tr)))
	req, err := http.NewRequestWithContext(ctx, "GET", fmt.Sprintf("http://127.0.0.1:%d/pmapi/%s", a.port, path), nil)
	if err != nil {
		return peer.Output{}, err
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return peer.Output{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return peer.Output{Cmd: req.URL.String(), Stdout: d.Anonymous(tr, string(body)), Code: resp.StatusCode}, err
}

// TestPmproxyManyHosts has a pmproxy watch more hosts than a client may have
// contexts (-C): its library counts contexts over all of them, so that a daemon
// sees one connection with one context, whose number is high.
func TestPmproxyManyHosts(t *testing.T) {
	peer.Require(t)
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	d := peer.StartT(t, path, peer.Config{})
	api := newRestAPI(t, d, "tcp")
	get := func(query string, reply any) {
		t.Helper()
		o, err := api.get(t.Context(), d, peer.TCP4, query)
		if err == nil && o.Code == http.StatusOK {
			err = json.Unmarshal([]byte(o.Stdout), reply)
		}
		if err != nil || o.Code != http.StatusOK {
			t.Fatalf("%s: %v\n%s", query, err, o)
		}
	}
	const hosts = 80
	contexts := make([]uint64, hosts)
	for i := range contexts {
		var reply struct{ Context uint64 }
		get(fmt.Sprintf("context?hostspec=127.0.0.%d:%d&polltimeout=300", i+1, d.Port), &reply)
		contexts[i] = reply.Context
	}
	for round := range 2 {
		for i, c := range contexts {
			var reply struct {
				Values []struct {
					Name      string
					Instances []struct{ Value int }
				}
			}
			get(fmt.Sprintf("fetch?context=%d&names=sample.long.ten", c), &reply)
			if len(reply.Values) != 1 || len(reply.Values[0].Instances) != 1 || reply.Values[0].Instances[0].Value != 10 {
				t.Errorf("round %d, host %d: got %+v, want 10", round, i, reply)
			}
		}
	}
}

// jsonLines makes a record of each member of an object.
func jsonLines(text string) []peer.Record {
	var rs []peer.Record
	for _, l := range strings.Split(strings.NewReplacer(",", "\n", "{", "\n").Replace(text), "\n") {
		key, _, _ := strings.Cut(l, ":")
		rs = append(rs, peer.Record{Key: key, Lines: []string{l}})
	}
	return rs
}
