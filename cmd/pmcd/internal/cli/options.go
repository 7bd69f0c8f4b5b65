// Package cli has the options of pmcd: it reads the command line and the environment
// (pmcd(1)), sets defaults, prints the usage, and finds the paths of files.
package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gopcp/pmcd/agents/serve/getopt"
	"github.com/gopcp/pmcd/daemon"
	"github.com/gopcp/pmcd/pmcdconf/debugopt"
)

// Options are the options of pmcd, from the command line and the environment (pmcd(1),
// OPTIONS).
type Options struct {
	Config           string
	Namespace        daemon.Namespace
	TLSConf          string // tls.conf; "" is none
	Interfaces       []string
	Ports            []int
	addressesFrom    []string // the options and variables that Interfaces and Ports are from
	Socket           string
	socketGiven      bool // -s or PMCD_SOCKET
	localGiven       bool // PMCD_LOCAL
	Log              string
	LogFormat        string // text or json
	Hostname         string
	User             string
	Debug            string
	MaxPDU           int
	MaxContexts      int
	MaxMetrics       int
	ClientMemory     int64
	Relays           []netip.Prefix // see daemon.Config
	NoClearPasswords bool
	MaxReply         int // see daemon.Config
	Backlog          int // of listening sockets; 0 is as many as the system allows
	Trace            int
	Timeout          time.Duration
	HandshakeTimeout time.Duration
	LateGrace        time.Duration // see daemon.Config
	NoRestart        bool
	Foreground       bool   // -f
	Managed          bool   // -F, which has precedence
	Service          bool   // -F, or a service manager or a script of it has started this process
	FailureFile      string // where failures at the start are copied; "" is the terminal
	Embedded         bool   // serve what is compiled in
	preferEmbedded   bool   // --prefer-embedded
	EndWithRoot      bool   // --exit-without-helper
	Named            bool   // -c, -n or -N
	WithoutPCPConf   bool   // there is no pcp.conf
	Verify           bool
	VerifyRights     bool // -v also prints which agents run without root's rights, and what is not an error of TLS. --verify does not: PCP's script prints its output at each start, and the log has these lines
	Local            bool
	ReqAuth          bool // -S
	RemoteCert       bool // -Q
	Watch            bool
	CheckAgents      bool
	CheckNames       []string  // the agents that CheckAgents is for; none is all
	JSON             bool      // CheckAgents prints JSON
	Mistakes         []string  // mistakes that do not keep pmcd from starting
	Warnings         []Warning // for the log; they include Mistakes
}

// defaultPort is registered for pmcd.
const defaultPort = 44321

// Errors of Parse for command lines that neither serve nor verify.
var (
	ErrHelp    = errors.New("--help")
	ErrVersion = errors.New("--version")
)

// Parse reads the command line. The error, which is a [*UsageError], has all mistakes.
// Parse returns the options even if there is an error. As in C pmcd, an option that does
// not exist makes the exit code 0, even if there are other mistakes.
func Parse(args []string) (*Options, error) {
	opt := &Options{
		LogFormat:        "text",
		MaxPDU:           daemon.DefaultMaxPDU,
		MaxContexts:      daemon.DefaultMaxContexts,
		MaxMetrics:       daemon.DefaultMaxMetrics,
		Timeout:          daemon.DefaultRequestTimeout,
		HandshakeTimeout: daemon.DefaultHandshakeTimeout,
	}
	e := new(UsageError)
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
		return opt, ErrHelp
	case version && len(errs) == 0:
		return opt, ErrVersion
	}
	e.help, e.harmless = help, e.harmless || help
	if opt.Embedded && opt.Named {
		e.add("--embedded does not go with -c, -n or -N")
	}
	if opt.preferEmbedded && !opt.Named {
		opt.Embedded = true
	}
	if opt.JSON && !opt.CheckAgents {
		e.add("--json requires --check-agents")
	}
	if opt.CheckAgents {
		opt.CheckNames, rest = rest, nil
	}
	if len(rest) > 0 {
		e.last = fmt.Sprintf("unexpected argument %q", rest[0])
	}
	if len(e.lines)+len(rest) > 0 {
		return opt, e
	}
	return opt, nil
}

// table returns the options, which set the fields of opt.
func (opt *Options) table() []getopt.Option {
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
				return badValue("-%c requires a positive value (%s)", short, v)
			}
			*p = n
			return nil
		})
	}
	number := func(short byte, long string, least int, set func(n int)) getopt.Option {
		return with(short, long, func(v string) error {
			n, rest := strtol(v, 10)
			if rest != "" || n < least {
				return badValue("-%c requires a positive numeric argument (%s)", short, v)
			}
			set(n)
			return nil
		})
	}
	// Options that C pmcd does not have must not make its abbreviations ambiguous.
	own := func(o getopt.Option) getopt.Option {
		o.Whole = true
		return o
	}
	names := func(v string) error {
		opt.Namespace.Path, opt.Named = v, true
		return nil
	}
	return []getopt.Option{
		flag('A', "", new(bool)), // nothing is announced anyway
		with('c', "config", func(v string) error {
			opt.Config, opt.Named = v, true
			return nil
		}),
		own(flag(0, "check-agents", &opt.CheckAgents)),
		own(flag(0, "json", &opt.JSON)),
		limit('C', "maxctx", &opt.MaxContexts),
		with('D', "debug", func(v string) error {
			names, err := debugopt.Parse(opt.Debug + "," + v)
			if err != nil {
				return badValue("unrecognized debug options specification (%s)", v)
			}
			opt.Debug = strings.Join(names, ",")
			return nil
		}),
		own(flag(0, "embedded", &opt.Embedded)),
		own(flag(0, "prefer-embedded", &opt.preferEmbedded)),
		own(flag(0, "exit-without-helper", &opt.EndWithRoot)),
		flag('f', "foreground", &opt.Foreground),
		flag('F', "managed", &opt.Managed),
		text('H', "hostname", &opt.Hostname),
		with('i', "interface", func(v string) error {
			opt.addInterface(v)
			return nil
		}),
		text('l', "log", &opt.Log),
		own(with(0, "log-format", func(v string) error {
			if v != "text" && v != "json" {
				return badValue("--log-format requires text or json (%s)", v)
			}
			opt.LogFormat = v
			return nil
		})),
		own(with(0, "max-reply", func(v string) error {
			if !opt.setMaxReply(v) {
				return badValue("--max-reply requires a number of bytes, %d or more (%s)", minMaxReply, v)
			}
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
		limit('L', "maxbytes", &opt.MaxPDU),
		limit('M', "maxmetric", &opt.MaxMetrics),
		own(with(0, "max-client-memory", func(v string) (err error) {
			if opt.ClientMemory, err = strconv.ParseInt(v, 10, 64); err != nil || opt.ClientMemory <= 0 {
				return badValue("--max-client-memory requires a number of bytes (%s)", v)
			}
			return nil
		})),
		with('n', "namespace", names),
		with('N', "uniqnames", func(v string) error {
			opt.Namespace.Unique = true
			return names(v)
		}),
		with('p', "port", func(v string) error {
			ports, ok := opt.parsePorts("-p", v)
			if !ok {
				return badValue("-p requires a positive numeric argument (%s)", v)
			}
			opt.Ports = append(opt.Ports, ports...)
			return nil
		}),
		own(with(0, "relay", func(v string) error {
			for word := range strings.SplitSeq(v, ",") {
				relay, ok := parseRelay(word)
				if !ok {
					return badValue("--relay requires numeric addresses or networks (%s)", v)
				}
				opt.Relays = append(opt.Relays, relay)
			}
			return nil
		})),
		number('q', "", 1, func(n int) { opt.HandshakeTimeout = time.Duration(n) * time.Second }),
		flag('Q', "remotecert", &opt.RemoteCert),
		own(flag(0, "no-clear-passwords", &opt.NoClearPasswords)),
		text('s', "socket", &opt.Socket),
		flag('S', "reqauth", &opt.ReqAuth),
		number('t', "", 0, func(n int) { opt.Timeout = time.Duration(n) * time.Second }),
		number('T', "trace", 0, func(n int) { opt.Trace = n }),
		text('U', "username", &opt.User),
		{Short: 'v', Set: func(string) error { opt.Verify, opt.VerifyRights = true, true; return nil }},
		flag(0, "verify", &opt.Verify),
		own(flag(0, "watch", &opt.Watch)),
		text('x', "", &opt.FailureFile),
	}
}

// StandAlone reports whether pmcd is to run like any other program (-f): it stays in
// the foreground, its user stays the same, it writes no PID file and notifies no service
// manager.
func (opt *Options) StandAlone() bool { return opt.Foreground && !opt.Managed }

// ConfigFile returns the path of pmcd.conf, "" for the embedded configuration.
func (opt *Options) ConfigFile() string {
	if opt.Embedded {
		return ""
	}
	return opt.Config
}
