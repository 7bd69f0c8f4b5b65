package pmdatest

import (
	_ "embed"
	"os"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

//go:embed testdata/servers.sh
var servers string

// withServers are agents that report about servers.
var withServers = []agent{
	{name: "nginx", ready: "nginx.active"},
	{name: "apache", ready: "apache.busy_servers"},
	{name: "postgresql", root: true, ready: "postgresql.stat.database.numbackends", anew: `postgresql\..*`},
	{name: "redis", ready: "redis.aof_enabled", anew: `redis\..*`},
	{name: "memcache", ready: "memcache.bytes"},
	{name: "mysql", ready: "mysql.status.uptime", anew: `mysql\..*`},
	{name: "named", root: true, ready: "named.interval"},
	{name: "haproxy", root: true, ready: "haproxy.info.pid"},
	{name: "mailq"},
	{name: "rsyslog", ready: "rsyslog.interval"},
	{name: "unbound", ready: "unbound.total.num.queries"},
	{name: "snmp", ready: "snmp.host.localhost.1.3.6.1.2.1.1.5.0"},
	{name: "pdns"},
	{name: "samba", root: true, ready: "samba.NTtransact.NT_transact_create_count"},
	{name: "gpsd", ready: "gpsd.devices.dev0.mode"},
	{name: "slurm", root: true, ready: "slurm.numnodes"},
	{name: "podman"},
	{name: "rabbitmq", ready: "rabbitmq.queue.messages", anew: `rabbitmq\..*`},
	{name: "smart"},
	{name: "dbping"},
	{name: "openmetrics", before: openmetrics + " && echo http://127.0.0.1:8083/metrics >small.url", ready: "openmetrics.small.some_temperature", anew: `openmetrics\.control\..*`},
}

// alone are agents that need no server, all that there are.
var alone = []agent{
	{name: "activemq"}, {name: "bash"}, {name: "denki", root: true}, {name: "docker", root: true}, {name: "ds389"},
	{name: "elasticsearch"}, {name: "gfs2"}, {name: "gluster"}, {name: "gpfs"}, {name: "hacluster", iam: "hacluster"},
	{name: "lustrecomm"}, {name: "json"}, {name: "nvidia"}, {name: "overhead", anew: `overhead\..*`}, {name: "perfevent", root: true}, {name: "pipe", root: true, fails: true},
	{name: "roomtemp", root: true, fails: true}, {name: "shping", anew: `shping\..*`}, {name: "summary", ready: "summary.cpu.util", ofLinux: true},
	{name: "systemd", root: true, only: peer.Bookworm}, {name: "trace", answers: "\n\n\n\n\n\n\n\n\n\n"}, {name: "uwsgi", only: peer.Trixie}, {name: "zfs"}, {name: "zimbra", root: true, leaves: "[/]pmdas/zimbra/|sleep 1[0]$"},
}

// TestPeerLong tries all that can be had, on both releases, with pmcd as root and as
// user pcp. "make pmdatest" runs it: it takes 10 to 15 minutes on two processors.
func TestPeerLong(t *testing.T) {
	if os.Getenv("PMCD_LONG") != "1" {
		t.Skip("set PMCD_LONG=1")
	}
	all := append([]agent(nil), alone...)
	for _, s := range short {
		all = append(all, s...)
	}
	for _, release := range []string{peer.Trixie, peer.Bookworm} {
		for _, user := range []string{"root", "pcp"} {
			as := map[string]string{"root": "", "pcp": "pcp"}[user]
			t.Run(release+" "+user+" servers", func(t *testing.T) {
				t.Parallel()
				tryAll(t, release+peer.WithServers, as, servers, withServers)
			})
			t.Run(release+" "+user+" alone", func(t *testing.T) {
				t.Parallel()
				tryAll(t, release+peer.WithServers, as, "", all)
			})
		}
	}
}
