package peertest

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// dashboard returns the queries of a dashboard of docs/dashboards, by the titles of panels.
func dashboard(t *testing.T, name string) map[string][]string {
	t.Helper()
	root, err := peer.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/dashboards", name))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	queries, n := make(map[string][]string), 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries[p.Title] = append(queries[p.Title], target.Expr)
			n++
		}
	}
	if n < 20 {
		t.Fatalf("only %d queries", n)
	}
	return queries
}

// documented returns the queries that are blocks of code marked "promql" in docs, by the names
// of files.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	root, err := peer.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	queries := make(map[string][]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "\n```promql\n")[1:] {
			query, _, _ := strings.Cut(block, "```")
			queries[filepath.Base(file)] = append(queries[filepath.Base(file)], query)
		}
	}
	if len(queries) == 0 {
		t.Fatal("no queries in documents")
	}
	return queries
}

// comparison is what an alert rule compares with.
var comparison = regexp.MustCompile(` (==|!=|<|>) `)

// conditions returns the queries of the alert rules that a server has, by the names of alerts:
// without thresholds, so that they have data on a host which is well.
func (s promServer) conditions(t *testing.T) map[string][]string {
	t.Helper()
	var reply struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Query string }
			}
		}
	}
	text := mustGet(t, s.url+"/api/v1/rules")
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		t.Fatalf("%v, %s", err, text)
	}
	queries := make(map[string][]string)
	for _, g := range reply.Data.Groups {
		for _, r := range g.Rules {
			query := comparison.ReplaceAllString(r.Query, " $1 bool ")
			queries[r.Name] = append(queries[r.Name], strings.ReplaceAll(query, " unless ", " and "))
		}
	}
	if len(queries) < 10 {
		t.Fatalf("only %d alerts: %s", len(queries), text)
	}
	delete(queries, "RaidDegraded") // few hosts have one
	return queries
}

// dashboardDaemons are our pmcd with PCP's agents, and with those that are built in.
func dashboardDaemons(t *testing.T) map[string]*peer.Daemon {
	t.Helper()
	ours := servers(t).Ours
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*peer.Daemon{
		"agents of PCP":   ours,
		"built-in agents": peer.StartT(t, path, peer.Config{Embedded: true}),
	}
}

// Each query of the dashboard for Prometheus has data, and none is negative or no number. Those of
// alert rules and documents have data.
func TestDashboardPrometheus(t *testing.T) {
	testutil.NeedProgram(t, "prometheus")
	root, err := peer.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range dashboardDaemons(t) {
		t.Run(name, func(t *testing.T) {
			exporter := startExporter(t, d, d.Host(peer.Unix))
			server := startPrometheus(t, d, map[string]string{"pcp": exporter}, filepath.Join(root, "docs/dashboards/alerts.yml"))
			host, err := os.Hostname()
			if err != nil {
				t.Fatal(err)
			}
			variables := strings.NewReplacer("$hostname", host, "$__rate_interval", "1m")
			for panel, queries := range dashboard(t, "prometheus.json") {
				for _, query := range queries {
					if n := server.query(t, "count("+variables.Replace(query)+" >= 0) or vector(0)"); n == 0 {
						t.Errorf("%s: no data for %s", panel, query)
					}
				}
			}
			others := server.conditions(t)
			maps.Copy(others, documented(t))
			for of, queries := range others {
				for _, query := range queries {
					if n := server.query(t, "count("+query+") or vector(0)"); n == 0 {
						t.Errorf("%s: no data for %s", of, query)
					}
				}
			}
		})
	}
}

// Each query of the dashboard for grafana-pcp has data from pmproxy.
func TestDashboardPmproxy(t *testing.T) {
	for name, d := range dashboardDaemons(t) {
		t.Run(name, func(t *testing.T) {
			api := newRestAPI(t, d, "tcp")
			for panel, queries := range dashboard(t, "grafana-pcp.json") {
				for _, query := range queries {
					o, err := api.get(t.Context(), d, peer.Unix, "fetch?hostspec={host}&names="+query)
					var reply struct {
						Values []struct{ Instances []struct{ Value any } }
					}
					if err == nil {
						err = json.Unmarshal([]byte(o.Stdout), &reply)
					}
					if err != nil || o.Code != http.StatusOK || len(reply.Values) != 1 || len(reply.Values[0].Instances) == 0 {
						t.Errorf("%s: no data for %s: %v, %d, %s", panel, query, err, o.Code, o.Stdout)
					}
				}
			}
		})
	}
}
