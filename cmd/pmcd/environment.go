package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
)

// complete fills in what the environment says, and the defaults.
func (opt *options) complete(getenv func(string) string) error {
	if v := getenv("PMCD_PORT"); v != "" {
		ports, ok := opt.parsePorts(v)
		if !ok {
			return fmt.Errorf("bad PMCD_PORT in the environment: %q", v)
		}
		opt.ports = append(ports, opt.ports...)
		opt.warn("nports=%d from PMCD_PORT=%s in environment", len(opt.ports), v)
	}
	if len(opt.ports) == 0 {
		opt.ports = []int{defaultPort}
	}
	seen := make(map[int]bool)
	ports := opt.ports[:0]
	for _, p := range opt.ports {
		if seen[p] {
			opt.warn("duplicate client request port (%d) will be ignored", p)
			continue
		}
		seen[p] = true
		ports = append(ports, p)
	}
	opt.ports = ports
	if n, _ := strtol(getenv("PMCD_LOCAL"), 10); n != 0 {
		opt.local = true
		opt.interfaces = append(opt.interfaces, "loopback")
		opt.warn("localhost only from PMCD_LOCAL=%s in environment", getenv("PMCD_LOCAL"))
	}
	if v := getenv("PMCD_LATE_GRACE"); v != "" && opt.lateGrace == 0 {
		n, rest := strtol(v, 10)
		if rest != "" || n < 0 {
			return fmt.Errorf("bad PMCD_LATE_GRACE in the environment: %q", v)
		}
		opt.setLateGrace(n)
	}
	if getenv("PMCD_RESTART_AGENTS") == "0" {
		opt.noRestart = true
		opt.warn("restartAgents=0 from PMCD_RESTART_AGENTS=0 in environment")
	}
	if v := getenv("PMCD_MAXPENDING"); v != "" {
		if n, _ := strtol(v, 10); n > 0 {
			opt.backlog = n
			opt.warn("maxpending=%d from PMCD_MAXPENDING=%s in environment", n, v)
		} else {
			opt.mistake("PMCD_MAXPENDING=%s in environment is ignored: not a positive number", v)
		}
	}
	if opt.socket == "" {
		opt.socket = getenv("PMCD_SOCKET")
	}
	if dir := getenv("PCP_RUN_DIR"); opt.socket == "" && dir != "" {
		opt.socket = filepath.Join(dir, "pmcd.socket")
	}
	if opt.embedded {
		if len(opt.interfaces) == 0 {
			opt.interfaces, opt.local = []string{"loopback"}, true
		}
		return nil
	}
	opt.log = cmp.Or(opt.log, "pmcd.log")
	opt.config = cmp.Or(opt.config, getenv("PCP_PMCDCONF_PATH"))
	names := filepath.Join(getenv("PCP_VAR_DIR"), "pmns")
	if getenv("PCP_VAR_DIR") != "" {
		opt.namespace.Include = []string{names}
	}
	if opt.namespace.Path == "" {
		opt.namespace.Default = true
		opt.namespace.Path = cmp.Or(getenv("PMNS_DEFAULT"), getenv("PCP_VAR_DIR")+"/pmns/root")
	}
	if opt.config == "" {
		return fmt.Errorf("no configuration file: neither -c nor pcp.conf names one, and --embedded is not given (%w)", os.ErrNotExist)
	}
	return nil
}
