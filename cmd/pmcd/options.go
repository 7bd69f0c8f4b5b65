package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gopcp/pmcd/daemon"
	"github.com/gopcp/pmcd/pmcdconf"
)

// options are what the command line and the environment say (pmcd(1),
// OPTIONS).
type options struct {
	config       string
	namespace    daemon.Namespace
	interfaces   []string
	ports        []int
	socket       string
	log          string
	hostname     string
	user         string
	debug        string
	maxPDU       int
	maxContexts  int
	maxMetrics   int
	trace        int
	timeout      time.Duration
	credsTimeout time.Duration
	lateGrace    time.Duration // see daemon.Config
	noRestart    bool
	foreground   bool   // -f
	managed      bool   // -F, which has precedence
	fatal        string // where failures at the start are copied; "" is the terminal
	embedded     bool   // serve what is compiled in
	named        bool   // -c, -n or -N
	verify       bool
	local        bool
	reqAuth      bool     // -S
	remoteCert   bool     // -Q
	warnings     []string // for the log, once there is one
}

// defaultPort is registered for pmcd.
const defaultPort = 44321

var errHelp = errors.New("help")

// A usageError is a mistake on the command line.
type usageError struct {
	text     string
	harmless bool // C pmcd prints its usage and exits with 0
}

func (e *usageError) Error() string { return e.text }

// parseOptions reads the command line, in the order of POSIX: options first,
// and nothing else.
func parseOptions(args []string) (*options, error) {
	opt := &options{
		maxPDU:       64 << 10,
		maxContexts:  64,
		maxMetrics:   32 << 10,
		timeout:      5 * time.Second,
		credsTimeout: 3 * time.Second,
	}
	cmd := &cobra.Command{
		Use:               "pmcd",
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unexpected argument %q: %w", args[0], errValue)
			}
			return nil
		},
	}
	cmd.SetArgs(args)
	f := cmd.Flags()
	f.SetInterspersed(false)
	help := f.BoolP("help", "?", false, "")
	opt.define(f)
	cmd.SetHelpFunc(func(*cobra.Command, []string) { *help = true })
	f.SetNormalizeFunc(abbreviations(f))
	err := cmd.Execute()
	switch {
	case err == nil && *help:
		return nil, errHelp
	case errors.Is(err, pflag.ErrHelp):
		return nil, errHelp
	case errors.Is(err, errValue):
		return nil, &usageError{text: valueText(err)}
	case err != nil:
		return nil, &usageError{text: err.Error(), harmless: true}
	case opt.embedded && opt.named:
		return nil, &usageError{text: "--embedded does not go with -c, -n or -N"}
	}
	return opt, nil
}

// errValue marks an option's value as bad, which keeps pmcd from starting.
var errValue = errors.New("bad value")

// valueText is what pflag makes of an error of ours, without what it adds.
func valueText(err error) string {
	text := strings.TrimSuffix(err.Error(), ": "+errValue.Error())
	if i := strings.LastIndex(text, "flag: "); i >= 0 {
		text = text[i+len("flag: "):]
	}
	return text
}

// abbreviations has long options be written as short as they are unique, as
// getopt_long(3) does.
func abbreviations(f *pflag.FlagSet) func(*pflag.FlagSet, string) pflag.NormalizedName {
	var names []string
	f.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		found := ""
		for _, n := range names {
			switch {
			case n == name:
				return pflag.NormalizedName(name)
			case strings.HasPrefix(n, name) && found != "":
				return pflag.NormalizedName(name) // it could be either
			case strings.HasPrefix(n, name):
				found = n
			}
		}
		if found == "" {
			found = name
		}
		return pflag.NormalizedName(found)
	}
}

func (opt *options) define(f *pflag.FlagSet) {
	f.BoolFuncP("no-avahi", "A", "", func(string) error { return nil }) // nothing is announced anyway
	f.BoolVar(&opt.embedded, "embedded", false, "")
	f.FuncP("config", "c", "", func(v string) error {
		opt.config, opt.named = v, true
		return nil
	})
	f.BoolVarP(&opt.foreground, "foreground", "f", false, "")
	f.BoolVarP(&opt.managed, "managed", "F", false, "")
	f.StringVarP(&opt.fatal, "fatal", "x", "", "")
	f.StringVarP(&opt.hostname, "hostname", "H", "", "")
	f.StringVarP(&opt.log, "log", "l", "", "")
	f.StringVarP(&opt.socket, "socket", "s", "", "")
	f.StringVarP(&opt.user, "username", "U", "", "")
	f.BoolVarP(&opt.verify, "verify", "v", false, "")
	f.BoolVarP(&opt.reqAuth, "reqauth", "S", false, "")
	f.BoolVarP(&opt.remoteCert, "remotecert", "Q", false, "")
	f.FuncP("namespace", "n", "", func(v string) error {
		opt.namespace.Path, opt.named = v, true
		return nil
	})
	f.FuncP("uniqnames", "N", "", func(v string) error {
		opt.namespace.Path, opt.namespace.Unique, opt.named = v, true, true
		return nil
	})
	f.FuncP("interface", "i", "", func(v string) error {
		addr, err := parseInterface(v)
		opt.interfaces = append(opt.interfaces, addr)
		return err
	})
	f.FuncP("port", "p", "", func(v string) error {
		ports, err := parsePorts(v)
		if err != nil {
			return fmt.Errorf("-p requires a positive numeric argument (%s): %w", v, errValue)
		}
		opt.ports = append(opt.ports, ports...)
		return nil
	})
	f.FuncP("debug", "D", "", func(v string) error {
		names, err := pmcdconf.ParseDebug(v)
		if err != nil {
			return fmt.Errorf("unrecognized debug options specification (%s): %w", v, errValue)
		}
		opt.debug = strings.Join(names, ",")
		return nil
	})
	number := func(name, short string, least int, base int, set func(int)) {
		f.FuncP(name, short, "", func(v string) error {
			n, err := parseNumber(v, base)
			if err != nil || n < least {
				return fmt.Errorf("-%s requires a positive numeric argument: %w", short, errValue)
			}
			set(n)
			return nil
		})
	}
	number("maxbytes", "L", 1, 0, func(n int) { opt.maxPDU = n })
	number("maxctx", "C", 1, 0, func(n int) { opt.maxContexts = n })
	number("maxmetric", "M", 1, 0, func(n int) { opt.maxMetrics = n })
	number("trace", "T", 0, 10, func(n int) { opt.trace = n })
	number("creds-timeout", "q", 1, 10, func(n int) { opt.credsTimeout = time.Duration(n) * time.Second })
	f.Func("late-grace", "", func(v string) error {
		n, err := parseNumber(v, 10)
		if err != nil || n < 0 {
			return fmt.Errorf("--late-grace requires a number of seconds (%s): %w", v, errValue)
		}
		opt.setLateGrace(n)
		return nil
	})
	number("timeout", "t", 0, 10, func(n int) { opt.timeout = time.Duration(n) * time.Second })
}

// setLateGrace is --late-grace; no time at all is less than zero for the daemon.
func (opt *options) setLateGrace(seconds int) {
	opt.lateGrace = time.Duration(seconds) * time.Second
	if seconds == 0 {
		opt.lateGrace = -1
	}
}

// parseNumber is strtol(3): base 0 takes 0x and 0 for prefixes, and then
// ignores what follows the digits, as C pmcd does for its limits.
func parseNumber(v string, base int) (int, error) {
	if base == 0 {
		digits := strings.ToLower(v)
		end := 0
		if strings.HasPrefix(digits, "0x") {
			end = 2
		}
		valid := "0123456789"
		if end == 2 {
			valid += "abcdef"
		}
		for end < len(digits) && strings.IndexByte(valid, digits[end]) >= 0 {
			end++
		}
		v = v[:end]
	}
	n, err := strconv.ParseInt(v, base, 32)
	return int(n), err
}

func parsePorts(v string) ([]int, error) {
	var ports []int
	for word := range strings.SplitSeq(v, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(word), 0, 16)
		if err != nil {
			return nil, err
		}
		ports = append(ports, int(n))
	}
	return ports, nil
}

// parseInterface returns the address for daemon.Listen.
func parseInterface(v string) (string, error) {
	switch v {
	case "INADDR_ANY":
		return "", nil
	case "INADDR_LOOPBACK":
		return "loopback", nil
	}
	if _, err := netip.ParseAddr(v); err != nil {
		return "", fmt.Errorf("-i requires a numeric address (%s): %w", v, errValue)
	}
	return v, nil
}

// complete fills in what the environment says, and the defaults.
func (opt *options) complete(getenv func(string) string) error {
	if v := getenv("PMCD_PORT"); v != "" {
		ports, err := parsePorts(v)
		if err != nil {
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
	if n, _ := strconv.Atoi(getenv("PMCD_LOCAL")); n != 0 {
		opt.local = true
		opt.interfaces = append(opt.interfaces, "loopback")
		opt.warn("localhost only from PMCD_LOCAL=%s in environment", getenv("PMCD_LOCAL"))
	}
	if v := getenv("PMCD_LATE_GRACE"); v != "" && opt.lateGrace == 0 {
		n, err := parseNumber(v, 10)
		if err != nil || n < 0 {
			return fmt.Errorf("bad PMCD_LATE_GRACE in the environment: %q", v)
		}
		opt.setLateGrace(n)
	}
	if getenv("PMCD_RESTART_AGENTS") == "0" {
		opt.noRestart = true
		opt.warn("restartAgents=0 from PMCD_RESTART_AGENTS=0 in environment")
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
	if opt.log == "" {
		opt.log = "pmcd.log"
	}
	if opt.config == "" {
		opt.config = getenv("PCP_PMCDCONF_PATH")
	}
	if dir := getenv("PCP_VAR_DIR"); dir != "" {
		opt.namespace.Include = []string{filepath.Join(dir, "pmns")}
	}
	if opt.namespace.Path == "" {
		opt.namespace.Default = true
		opt.namespace.Path = getenv("PMNS_DEFAULT")
		if dir := getenv("PCP_VAR_DIR"); dir != "" {
			opt.namespace.Include = []string{filepath.Join(dir, "pmns")}
		}
		if opt.namespace.Path == "" {
			opt.namespace.Path = getenv("PCP_VAR_DIR") + "/pmns/root"
		}
	}
	if opt.config == "" {
		return fmt.Errorf("no configuration file: neither -c nor pcp.conf names one, and --embedded is not given (%w)", os.ErrNotExist)
	}
	return nil
}

func (opt *options) warn(format string, args ...any) {
	opt.warnings = append(opt.warnings, fmt.Sprintf(format, args...))
}
