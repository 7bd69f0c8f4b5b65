package cli

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
	"github.com/gopcp/pmcd/pmcdconf/tlsconf"
)

// Complete completes the options from the environment and by the defaults.
func (opt *Options) Complete(getenv func(string) string) error {
	if err := opt.completeAddresses(getenv); err != nil {
		return err
	}
	if err := opt.completeLimits(getenv); err != nil {
		return err
	}
	return opt.completeFiles(getenv)
}

// completeAddresses completes the addresses and ports.
func (opt *Options) completeAddresses(getenv func(string) string) error {
	if len(opt.Interfaces) > 0 {
		opt.addressesFrom = append(opt.addressesFrom, "-i")
	}
	if len(opt.Ports) > 0 {
		opt.addressesFrom = append(opt.addressesFrom, "-p")
	}
	if v := getenv("PMCD_PORT"); v != "" {
		opt.addressesFrom = append(opt.addressesFrom, "PMCD_PORT")
		ports, ok := opt.parsePorts("PMCD_PORT", v)
		if !ok {
			return fmt.Errorf("bad PMCD_PORT in the environment: %q: port numbers, separated by commas, are valid", v)
		}
		opt.Ports = append(ports, opt.Ports...)
		opt.Warn("nports={count} from PMCD_PORT={value} in environment", "count", len(opt.Ports), "value", v)
	}
	if len(opt.Ports) == 0 {
		opt.Ports = []int{defaultPort}
	}
	ports := opt.Ports[:0]
	for _, p := range opt.Ports {
		if slices.Contains(ports, p) {
			opt.Warn("duplicate client request port ({port}) will be ignored", "port", p)
			continue
		}
		ports = append(ports, p)
	}
	opt.Ports = ports
	if v := getenv("PMCD_LOCAL"); v != "" {
		switch n, rest := strtol(v, 10); {
		case n != 0:
			opt.Local, opt.localGiven = true, true
			opt.Interfaces = append(opt.Interfaces, "loopback")
			opt.Warn("localhost only from PMCD_LOCAL={value} in environment", "value", v)
		case rest != "":
			opt.Mistake("PMCD_LOCAL={value} in environment is ignored: 1 (localhost only) and 0 are valid", "value", v)
		}
	}
	// C pmcd differs: it listens at all addresses. A host without PCP has no access rules of PCP
	// that protect it, and -c and -n alone must not open it to the network.
	if len(opt.Interfaces) == 0 && (opt.Embedded || opt.preferEmbedded || opt.WithoutPCPConf) {
		opt.Interfaces, opt.Local = []string{"loopback"}, true
	}
	return nil
}

// completeLimits completes what only numbers of the environment set.
func (opt *Options) completeLimits(getenv func(string) string) error {
	if v := getenv("PMCD_MAX_REPLY"); v != "" && opt.MaxReply == 0 && !opt.setMaxReply(v) {
		return fmt.Errorf("bad PMCD_MAX_REPLY in the environment: %q: a number of bytes, %d or more, is valid", v, minMaxReply)
	}
	switch v := getenv("PMCD_RESTART_AGENTS"); v {
	case "", "1":
	case "0":
		opt.NoRestart = true
		opt.Warn("restartAgents=0 from PMCD_RESTART_AGENTS=0 in environment")
	default:
		opt.Mistake("PMCD_RESTART_AGENTS={value} in environment is ignored: 0 (agents that fail are not started again) and 1 are valid", "value", v)
	}
	if v := getenv("PMCD_MAXPENDING"); v != "" {
		if n, _ := strtol(v, 10); n > 0 {
			opt.Backlog = n
			opt.Warn("maxpending={count} from PMCD_MAXPENDING={value} in environment", "count", n, "value", v)
		} else {
			opt.Mistake("PMCD_MAXPENDING={value} in environment is ignored: not a positive number", "value", v)
		}
	}
	return nil
}

// completeFiles completes the paths of files. Those of the embedded configuration are in
// PlaceFiles.
func (opt *Options) completeFiles(getenv func(string) string) error {
	opt.Socket = cmp.Or(opt.Socket, getenv("PMCD_SOCKET"))
	opt.socketGiven = opt.Socket != ""
	if dir := getenv("PCP_RUN_DIR"); opt.Socket == "" && dir != "" {
		opt.Socket = filepath.Join(dir, "pmcd.socket")
	}
	opt.TLSConf = getenv("PCP_TLSCONF_PATH")
	if opt.TLSConf == "" && (opt.preferEmbedded || !opt.Embedded) { // any user may start others, and not be able to read the key
		opt.TLSConf = tlsconf.DefaultPath
	}
	if opt.Embedded {
		return nil
	}
	opt.Log = cmp.Or(opt.Log, "pmcd.log")
	opt.Config = cmp.Or(opt.Config, getenv("PCP_PMCDCONF_PATH"))
	if opt.Config == "" {
		return fmt.Errorf("no configuration file: neither -c nor pcp.conf names one: %s; give -c, or --embedded for what is compiled in", notNamed("PCP_PMCDCONF_PATH", getenv))
	}
	names := ""
	if dir := getenv("PCP_VAR_DIR"); dir != "" {
		names = filepath.Join(dir, "pmns")
		opt.Namespace.Include = []string{names}
	}
	if opt.Namespace.Path == "" {
		opt.Namespace.Default = true
		opt.Namespace.Path = getenv("PMNS_DEFAULT")
		if opt.Namespace.Path == "" && names == "" {
			return fmt.Errorf("no name space: neither -n nor pcp.conf names one: %s; give -n, such as -n /usr/share/pmcd/root", notNamed("PCP_VAR_DIR", getenv))
		}
		opt.Namespace.Path = cmp.Or(opt.Namespace.Path, filepath.Join(names, "root"))
	}
	return nil
}

// Inherit adds mistakes for what the options and the environment say about addresses without
// effect, because the service manager has opened sockets at these.
func (opt *Options) Inherit(addrs []net.Addr) {
	const remedy = "change ListenStream= (systemctl edit pmcd.socket), or have pmcd listen itself (systemctl disable --now pmcd.socket; systemctl restart pmcd.service)"
	var tcp []string
	open := false // to other hosts
	for _, addr := range addrs {
		switch addr := addr.(type) {
		case *net.TCPAddr:
			tcp = append(tcp, addr.String())
			open = open || !addr.IP.IsLoopback()
		case *net.UnixAddr:
			if opt.socketGiven && addr.Name != opt.Socket {
				opt.Mistake("the socket {socket} of -s or PMCD_SOCKET is not served: the service manager has opened {path}; "+remedy,
					"socket", opt.Socket, "path", addr.Name, logtext.Event("option_ignored"))
			}
		}
	}
	from := opt.addressesFrom
	if open && opt.localGiven {
		from = append(from[:len(from):len(from)], "PMCD_LOCAL")
	}
	if len(tcp) > 0 && len(from) > 0 {
		opt.Mistake("{option} without effect: the service manager has opened the ports {addresses}; "+remedy,
			"option", strings.Join(from, ", "), "addresses", strings.Join(tcp, ", "), logtext.Event("option_ignored"))
	}
}

// notNamed returns why pcp.conf does not set the variable that names a file.
func notNamed(name string, getenv func(string) string) string {
	lookup := func(name string) (string, bool) {
		v := getenv(name)
		return v, v != ""
	}
	if err := pcpconf.CheckNamed(lookup); err != nil {
		return err.Error()
	}
	if _, err := pcpconf.Load(lookup); err != nil {
		return err.Error()
	}
	return "it does not set " + name
}
