// Package embedded has the compiled-in configuration, name space and labels that pmcd uses
// on a host without PCP.
package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/gopcp/pmcd/daemon"
	"github.com/gopcp/pmcd/etc"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
	"github.com/gopcp/pmcd/pmnsload"
)

// WithoutPCP reports whether a host has no PCP: there is neither a pcp.conf(5) nor a
// pmcd.conf nor a PMNS(5), and no variable of the environment names one. A file counts as
// present if pmcd cannot find out whether it exists.
func WithoutPCP(root string, lookup func(string) (string, bool)) bool {
	for _, name := range []string{"PCP_CONF", "PCP_DIR", "PCP_PMCDCONF_PATH", "PCP_VAR_DIR", "PMNS_DEFAULT"} {
		if _, ok := lookup(name); ok {
			return false
		}
	}
	for _, path := range []string{"/etc/pcp.conf", "/usr/local/etc/pcp.conf", "/etc/pcp/pmcd/pmcd.conf", "/var/lib/pcp/pmns/root"} {
		if _, err := os.Lstat(filepath.Join(root, path)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// Agents returns the agents of the compiled-in configuration.
func Agents() ([]pmcdconf.Agent, error) {
	conf, err := parseConfig(pmcdconf.Options{AgentsOnly: true})
	return conf.Agents, err
}

func parseConfig(opt pmcdconf.Options) (*pmcdconf.Config, error) {
	return pmcdconf.Parse("embedded pmcd.conf", strings.NewReader(etc.Conf), opt)
}

// Load returns the compiled-in configuration, name space and labels. reqAuth is -S.
func Load(reqAuth bool) (*daemon.Embedded, error) {
	conf, err := parseConfig(pmcdconf.Options{CredsRequired: reqAuth, OwnNameLater: true})
	if err != nil {
		return nil, err
	}
	names, err := pmnsload.Parse("embedded PMNS", strings.NewReader(etc.Names), pmnsload.Options{Preprocess: true})
	if err != nil {
		return nil, err
	}
	labels, err := hostlabels.Parse(etc.Labels)
	if err != nil {
		return nil, fmt.Errorf("embedded labels: %w", err)
	}
	for i := range labels {
		// So the series of metrics stay the same when the host gets a configuration.
		labels[i].Optional = true
	}
	return &daemon.Embedded{Conf: conf, Names: names, Labels: labels}, nil
}

// Describe returns lines that say what pmcd serves, and how clients connect.
func Describe(e *daemon.Embedded, addrs []net.Addr) []string {
	var names []string
	for _, a := range e.Conf.Agents {
		names = append(names, a.Name)
	}
	lines := []string{fmt.Sprintf("serving embedded defaults: %d metrics; agents: %s", e.Names.Len(), strings.Join(names, ", "))}
	tcp, unix := "", ""
	for _, addr := range addrs {
		switch addr := addr.(type) {
		case *net.TCPAddr:
			if tcp == "" {
				tcp = "try: pmcdctl list -h " + clientAddr(addr)
			}
		case *net.UnixAddr:
			unix = "try: pmcdctl list -h unix:" + addr.Name
		}
	}
	for _, line := range []string{tcp, unix} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// clientAddr returns the address with which a client on this host connects to a.
func clientAddr(a *net.TCPAddr) string {
	host := a.IP.String()
	if a.IP.IsUnspecified() || a.IP.Equal(net.IPv4(127, 0, 0, 1)) || a.IP.Equal(net.IPv6loopback) {
		host = "localhost"
	}
	return net.JoinHostPort(host, fmt.Sprint(a.Port))
}
