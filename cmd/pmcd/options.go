package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/gopcp/pmcd/agents/serve/getopt"
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
	logFormat    string // text or json
	hostname     string
	user         string
	debug        string
	maxPDU       int
	maxContexts  int
	maxMetrics   int
	backlog      int // of listening sockets; 0 is as many as the system allows
	trace        int
	timeout      time.Duration
	credsTimeout time.Duration
	lateGrace    time.Duration // see daemon.Config
	noRestart    bool
	foreground   bool   // -f
	managed      bool   // -F, which has precedence
	fatal        string // where failures at the start are copied; "" is the terminal
	embedded     bool   // serve what is compiled in
	endWithRoot  bool   // --exit-without-helper
	named        bool   // -c, -n or -N
	verify       bool
	verifyRights bool // -v: also which agents run without root's rights. PCP's script prints what --verify says at each start, and the log has that
	local        bool
	reqAuth      bool // -S
	remoteCert   bool // -Q
	watch        bool
	mistakes     []string // what does not keep pmcd from starting
	warnings     []string // for the log, once there is one: mistakes too
}

// defaultPort is registered for pmcd.
const defaultPort = 44321

// What else than to serve or to verify a command line can ask for.
var (
	errHelp    = errors.New("--help")
	errVersion = errors.New("--version")
)

// parseOptions reads the command line. All of it is read, and all that is wrong
// with it told at once; the options are returned with the error, too. As with C
// pmcd an option that does not exist is harmless, whatever else is wrong.
func parseOptions(args []string) (*options, error) {
	opt := &options{
		logFormat:    "text",
		maxPDU:       64 << 10,
		maxContexts:  64,
		maxMetrics:   32 << 10,
		timeout:      5 * time.Second,
		credsTimeout: 3 * time.Second,
	}
	e := new(usageError)
	help, version := false, false
	all := append(opt.table(), getopt.Option{Short: '?', Long: "help", Set: func(string) error {
		help = true
		return nil
	}}, getopt.Option{Short: 'V', Long: "version", Whole: true, Set: func(string) error { // --ver is --verify
		version = true
		return nil
	}})
	rest, errs := getopt.Parse(all, args)
	for _, err := range errs {
		e.add(err.Error())
		if !errors.As(err, new(valueError)) {
			e.harmless = true
		}
	}
	switch {
	case help && len(errs) == 0:
		return opt, errHelp
	case version && len(errs) == 0:
		return opt, errVersion
	}
	e.harmless = e.harmless || help
	if opt.embedded && opt.named {
		e.add("--embedded does not go with -c, -n or -N")
	}
	if len(rest) > 0 {
		e.last = fmt.Sprintf("unexpected argument %q", rest[0])
	}
	if len(e.lines)+len(rest) > 0 {
		return opt, e
	}
	return opt, nil
}

// A valueError is about the value of an option.
type valueError string

func (e valueError) Error() string { return string(e) }

func badValue(format string, a ...any) error { return valueError(fmt.Sprintf(format, a...)) }

// table returns the options, which set the fields of opt.
func (opt *options) table() []getopt.Option {
	flag := func(short byte, long string, p *bool) getopt.Option {
		return getopt.Option{Short: short, Long: long, Set: func(string) error {
			*p = true
			return nil
		}}
	}
	with := func(short byte, long string, set func(v string) error) getopt.Option {
		return getopt.Option{Short: short, Long: long, Arg: "VALUE", Set: set}
	}
	text := func(short byte, long string, p *string) getopt.Option {
		return with(short, long, func(v string) error {
			*p = v
			return nil
		})
	}
	// As in C pmcd what follows the digits of a limit does not count.
	limit := func(short byte, long string, p *int) getopt.Option {
		return with(short, long, func(v string) error {
			n, _ := strtol(v, 0)
			if n <= 0 {
				return badValue("-%c requires a positive value", short)
			}
			*p = n
			return nil
		})
	}
	number := func(short byte, long string, least int, set func(n int)) getopt.Option {
		return with(short, long, func(v string) error {
			n, rest := strtol(v, 10)
			if rest != "" || n < least {
				return badValue("-%c requires a positive numeric argument", short)
			}
			set(n)
			return nil
		})
	}
	// What C pmcd does not have must not make its abbreviations ambiguous.
	own := func(o getopt.Option) getopt.Option {
		o.Whole = true
		return o
	}
	names := func(v string) error {
		opt.namespace.Path, opt.named = v, true
		return nil
	}
	return []getopt.Option{
		flag('A', "", new(bool)), // nothing is announced anyway
		with('c', "config", func(v string) error {
			opt.config, opt.named = v, true
			return nil
		}),
		limit('C', "maxctx", &opt.maxContexts),
		with('D', "debug", func(v string) error {
			names, err := pmcdconf.ParseDebug(opt.debug + "," + v)
			if err != nil {
				return badValue("unrecognized debug options specification (%s)", v)
			}
			opt.debug = strings.Join(names, ",")
			return nil
		}),
		own(flag(0, "embedded", &opt.embedded)),
		own(flag(0, "exit-without-helper", &opt.endWithRoot)),
		flag('f', "foreground", &opt.foreground),
		flag('F', "managed", &opt.managed),
		text('H', "hostname", &opt.hostname),
		with('i', "interface", func(v string) error {
			opt.addInterface(v)
			return nil
		}),
		text('l', "log", &opt.log),
		own(with(0, "log-format", func(v string) error {
			if v != "text" && v != "json" {
				return badValue("--log-format requires text or json (%s)", v)
			}
			opt.logFormat = v
			return nil
		})),
		own(with(0, "late-grace", func(v string) error {
			n, rest := strtol(v, 10)
			if rest != "" || n < 0 {
				return badValue("--late-grace requires a number of seconds (%s)", v)
			}
			opt.setLateGrace(n)
			return nil
		})),
		limit('L', "maxbytes", &opt.maxPDU),
		limit('M', "maxmetric", &opt.maxMetrics),
		with('n', "namespace", names),
		with('N', "uniqnames", func(v string) error {
			opt.namespace.Unique = true
			return names(v)
		}),
		with('p', "port", func(v string) error {
			ports, ok := opt.parsePorts(v)
			if !ok {
				return badValue("-p requires a positive numeric argument (%s)", v)
			}
			opt.ports = append(opt.ports, ports...)
			return nil
		}),
		number('q', "", 1, func(n int) { opt.credsTimeout = time.Duration(n) * time.Second }),
		flag('Q', "remotecert", &opt.remoteCert),
		text('s', "socket", &opt.socket),
		flag('S', "reqauth", &opt.reqAuth),
		number('t', "", 0, func(n int) { opt.timeout = time.Duration(n) * time.Second }),
		number('T', "trace", 0, func(n int) { opt.trace = n }),
		text('U', "username", &opt.user),
		{Short: 'v', Set: func(string) error { opt.verify, opt.verifyRights = true, true; return nil }},
		flag(0, "verify", &opt.verify),
		own(flag(0, "watch", &opt.watch)),
		text('x', "", &opt.fatal),
	}
}

// setLateGrace is --late-grace; no time at all is less than zero for the daemon.
func (opt *options) setLateGrace(seconds int) {
	opt.lateGrace = time.Duration(seconds) * time.Second
	if seconds == 0 {
		opt.lateGrace = -1
	}
}

// parsePorts returns the numbers of a list, as in -p. One that is no port is
// left to whoever opens it: others may do.
func (opt *options) parsePorts(v string) (ports []int, ok bool) {
	for word := range strings.SplitSeq(v, ",") {
		n, rest := strtol(word, 0)
		if rest != "" || n < 0 {
			return nil, false
		}
		if n > 65535 {
			opt.mistake("there is no port %d", n)
		}
		if word != "" {
			ports = append(ports, n)
		}
	}
	return ports, true
}

// addInterface adds an address for daemon.Listen. It cannot be listened at if
// it is none, but at others.
func (opt *options) addInterface(v string) {
	switch v {
	case "INADDR_ANY":
		v = ""
	case "INADDR_LOOPBACK":
		v = "loopback"
	default:
		if _, err := netip.ParseAddr(v); err != nil {
			opt.mistake("-i %s: not a numeric address", v)
		}
	}
	opt.interfaces = append(opt.interfaces, v)
}

func (opt *options) mistake(format string, args ...any) {
	opt.mistakes = append(opt.mistakes, fmt.Sprintf(format, args...))
	opt.warn(format, args...)
}

func (opt *options) warn(format string, args ...any) {
	opt.warnings = append(opt.warnings, fmt.Sprintf(format, args...))
}
