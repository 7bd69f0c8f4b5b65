package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
)

// Complete fills in what the environment says, and the defaults.
func (opt *Options) Complete(getenv func(string) string) error {
	if v := getenv("PMCD_PORT"); v != "" {
		ports, ok := opt.parsePorts(v)
		if !ok {
			return fmt.Errorf("bad PMCD_PORT in the environment: %q", v)
		}
		opt.Ports = append(ports, opt.Ports...)
		opt.Warn("nports=%d from PMCD_PORT=%s in environment", len(opt.Ports), v)
	}
	if len(opt.Ports) == 0 {
		opt.Ports = []int{defaultPort}
	}
	seen := make(map[int]bool)
	ports := opt.Ports[:0]
	for _, p := range opt.Ports {
		if seen[p] {
			opt.Warn("duplicate client request port (%d) will be ignored", p)
			continue
		}
		seen[p] = true
		ports = append(ports, p)
	}
	opt.Ports = ports
	if n, _ := strtol(getenv("PMCD_LOCAL"), 10); n != 0 {
		opt.Local = true
		opt.Interfaces = append(opt.Interfaces, "loopback")
		opt.Warn("localhost only from PMCD_LOCAL=%s in environment", getenv("PMCD_LOCAL"))
	}
	if v := getenv("PMCD_LATE_GRACE"); v != "" && opt.LateGrace == 0 {
		n, rest := strtol(v, 10)
		if rest != "" || n < 0 {
			return fmt.Errorf("bad PMCD_LATE_GRACE in the environment: %q", v)
		}
		opt.setLateGrace(n)
	}
	if getenv("PMCD_RESTART_AGENTS") == "0" {
		opt.NoRestart = true
		opt.Warn("restartAgents=0 from PMCD_RESTART_AGENTS=0 in environment")
	}
	if v := getenv("PMCD_MAXPENDING"); v != "" {
		if n, _ := strtol(v, 10); n > 0 {
			opt.Backlog = n
			opt.Warn("maxpending=%d from PMCD_MAXPENDING=%s in environment", n, v)
		} else {
			opt.mistake("PMCD_MAXPENDING=%s in environment is ignored: not a positive number", v)
		}
	}
	switch v := getenv("PMCD_ACCEPTOR"); v {
	case "":
	case "portable":
		opt.PortableAcceptor = true
		opt.Warn("portable client connections from PMCD_ACCEPTOR=portable in environment")
	default:
		opt.mistake("PMCD_ACCEPTOR=%s in environment is ignored: only portable is known", v)
	}
	if opt.Socket == "" {
		opt.Socket = getenv("PMCD_SOCKET")
	}
	if dir := getenv("PCP_RUN_DIR"); opt.Socket == "" && dir != "" {
		opt.Socket = filepath.Join(dir, "pmcd.socket")
	}
	if opt.Embedded {
		if len(opt.Interfaces) == 0 {
			opt.Interfaces, opt.Local = []string{"loopback"}, true
		}
		return nil
	}
	opt.Log = cmp.Or(opt.Log, "pmcd.log")
	opt.Config = cmp.Or(opt.Config, getenv("PCP_PMCDCONF_PATH"))
	names := filepath.Join(getenv("PCP_VAR_DIR"), "pmns")
	if getenv("PCP_VAR_DIR") != "" {
		opt.Namespace.Include = []string{names}
	}
	if opt.Namespace.Path == "" {
		opt.Namespace.Default = true
		opt.Namespace.Path = cmp.Or(getenv("PMNS_DEFAULT"), getenv("PCP_VAR_DIR")+"/pmns/root")
	}
	if opt.Config == "" {
		return fmt.Errorf("no configuration file: neither -c nor pcp.conf names one, and --embedded is not given (%w)", os.ErrNotExist)
	}
	return nil
}
