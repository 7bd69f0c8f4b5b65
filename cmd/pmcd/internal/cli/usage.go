package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
)

// usageLine is the first line of each usage message, as in C pmcd.
const usageLine = "Usage: pmcd [options]\n"

// usageHint follows usageLine after a mistake.
//
// C pmcd differs: it prints the whole usage message, above which the mistake is easily
// missed.
const usageHint = "Try 'pmcd --help' for the options.\n"

// usageText is not C pmcd's: the options differ.
const usageText = usageLine + `
Service:
  -f, --foreground      stay in the foreground, and keep the user
  -F, --managed         stay in the foreground, otherwise as in the background
  -H, --hostname=NAME   value of pmcd.hostname
  -U, --username=USER   user to run as [$PCP_USER, else pcp]; no effect with -f
      --exit-without-helper  end when the root helper, which starts agents as
                        root, has ended [if there is a service manager]
  -A                    no effect; the service is never announced

Configuration:
  -c, --config=PATH     file with agents and access rules [$PCP_PMCDCONF_PATH]
  -n, --namespace=PATH  name space (PMNS) [$PCP_VAR_DIR/pmns/root]
  -N, --uniqnames=PATH  as -n, but no metric may have two names
      --embedded        compiled-in configuration, even if PCP is installed
      --prefer-embedded  the same, unless -c, -n or -N is given
  -v, --verify          check all files that pmcd would read, and exit
      --check-agents [NAME...]  start agents of the configuration, get a metric from
                        each, end them, and exit: see pmcdctl(1)
      --json            print JSON, with --check-agents
      --watch           reload when a file of the configuration changes

Connections:
  -i, --interface=ADDR  accept connections at this address; may be repeated
  -p, --port=N[,N...]   accept connections at this port; may be repeated [44321]
  -s, --socket=PATH     Unix domain socket [$PCP_RUN_DIR/pmcd.socket]
      --relay=ADDR[,ADDR...]  hosts of pmproxy: each of their connections
                        counts as a host; may be repeated
  -S, --reqauth         clients must log in (SASL), except at the Unix domain
                        socket
      --no-clear-passwords  refuse passwords in clear text at the ports, without TLS
  -Q, --remotecert      clients of other hosts must use TLS with a certificate

Limits:
  -C, --maxctx=N        contexts of one client [64]
  -L, --maxbytes=N      bytes in a request [65536]
  -M, --maxmetric=N     metrics in a fetch [32768]
      --max-client-memory=BYTES
                        memory for profiles, incomplete requests and unread
                        replies of all clients [100663296]
      --max-reply=BYTES bytes in a reply, of an agent or to a client [67108864]
  -q SECONDS            time for an agent to start [3]
  -t SECONDS            time for an agent to answer; 0 is no limit [5]
      --late-grace=SECONDS  time after -t until a late agent is killed and
                        started again [10 times -t]

Diagnostics:
  -D, --debug=NAMES     debug options, separated by commas
  -x PATH               file for the reason if pmcd cannot start [/dev/tty]
  -l, --log=PATH        log file; - is the standard error output [pmcd.log]
      --log-format=FORM text, or json for an object on each line [text]
  -T, --trace=BITS      events to remember: 1 connections, 2 PDUs, 256 unbuffered
  -?, --help            print this text
  -V, --version         print the versions of this program and of PCP

For the state of a running pmcd: pmcdctl --help
`

// Exit codes. Help and an unknown option exit with 0, because PCP's scripts depend on that.
// A service differs: see [Options.Reject].
const (
	ExitOK    = 0
	ExitError = 1
	// ExitMistake is that of a service whose options or configuration an admin must change: it
	// need not be started again (RestartPreventExitStatus=). It is EX_CONFIG of sysexits.h,
	// which systemd shows by name.
	ExitMistake = 78
	// ExitUsage is that of --check-agents for a mistake on the command line: the others have a
	// meaning of their own there.
	ExitUsage = 3
)

// MistakeCode returns the exit code of a pmcd that cannot start before an admin has changed its
// options or its configuration.
//
// C pmcd differs: for a service, too, the exit code is 1, and the service manager starts it
// again and again.
func (opt *Options) MistakeCode() int {
	if opt.Service {
		return ExitMistake
	}
	return ExitError
}

// NotStarted prints that pmcd has not started, as C pmcd does, and returns the exit code.
func NotStarted(stderr io.Writer) int {
	fmt.Fprintln(stderr, "pmcd not started due to errors!")
	return ExitError
}

// Reject handles the error of [Parse]: it prints the usage, the version or the mistakes of
// the command line, and returns the exit code. failure is why pmcd has not started; it is
// nil if pmcd was not to start.
//
// For a service, Reject prints one line, which the journal shows, and returns ExitMistake.
// C pmcd differs: for an unknown option it prints the usage message and exits with 0, so
// that the service manager treats the start as a success.
func (opt *Options) Reject(err error, version string, stdout, stderr io.Writer) (code int, failure error) {
	var usage *UsageError
	switch {
	case opt.isService(err, os.Getenv):
		why := oneLine(err)
		priority := ""
		if logging.StderrIsJournal() {
			priority = "<3>"
		}
		fmt.Fprintf(stderr, "%spmcd: not started: %s\n", priority, why)
		return opt.MistakeCode(), errors.New(why)
	case errors.Is(err, ErrHelp):
		fmt.Fprint(stderr, usageText)
	case errors.Is(err, ErrVersion):
		fmt.Fprint(stdout, version)
	case errors.As(err, &usage):
		fmt.Fprint(stderr, usage)
		if opt.CheckAgents {
			return ExitUsage, nil
		}
		if !usage.harmless {
			return NotStarted(stderr), errors.New(usage.short())
		}
	}
	return ExitOK, nil
}

// isService reports whether the command line with the error err is that of a service: a
// service manager, or a script of the manager, has started this process, or -F is given.
func (opt *Options) isService(err error, getenv func(string) string) bool {
	return !opt.CheckAgents && (getenv("NOTIFY_SOCKET") != "" || opt.Managed && errors.As(err, new(*UsageError)))
}

// oneLine returns the error of a command line in one line.
func oneLine(err error) string {
	if usage := (*UsageError)(nil); errors.As(err, &usage) {
		return strings.ReplaceAll(usage.short(), "\n", "; ")
	}
	return err.Error() + " is not for a service"
}

// A UsageError has the mistakes of a command line.
type UsageError struct {
	lines    []string // printed before the usage
	last     string   // printed after the usage, for a mistake that C pmcd does not report; may be ""
	help     bool     // the command line has --help, too
	harmless bool     // the exit code is 0, as in C pmcd
}

func (e *UsageError) add(text string) { e.lines = append(e.lines, text) }

// short returns the error without the usage.
func (e *UsageError) short() string {
	lines := e.lines
	if e.last != "" {
		lines = append(lines[:len(lines):len(lines)], e.last)
	}
	return strings.Join(lines, "\n")
}

func (e *UsageError) Error() string {
	var b strings.Builder
	for _, line := range e.lines {
		b.WriteString("pmcd: " + line + "\n")
	}
	if e.help {
		b.WriteString(usageText)
	} else {
		b.WriteString(usageLine + usageHint)
	}
	if e.last != "" {
		b.WriteString("pmcd: " + e.last + "\n")
	}
	return b.String()
}
