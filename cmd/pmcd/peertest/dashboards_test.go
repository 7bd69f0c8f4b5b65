package peertest

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
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

// Each query of the dashboard for Prometheus has data, and none is negative or no number.
func TestDashboardPrometheus(t *testing.T) {
	testutil.NeedProgram(t, "prometheus")
	for name, d := range dashboardDaemons(t) {
		t.Run(name, func(t *testing.T) {
			exporter := startExporter(t, d, d.Host(peer.Unix))
			server := startPrometheus(t, d, map[string]string{"pmcd": exporter})
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
