package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
)

// usageText is for people: what C pmcd says is not what ours can do.
const usageText = `Usage: pmcd [options]

Service:
  -f, --foreground      stay in the foreground, as this user
  -F, --managed         stay in the foreground, else as in the background
  -H, --hostname=NAME   what pmcd.hostname says
  -U, --username=USER   user to run as [$PCP_USER, else pcp]; with -f: no effect
      --exit-without-helper  end when the process that starts agents as root
                        does, as with a service manager
  -A                    announce nothing on the network (always so)

Configuration:
  -c, --config=PATH     agents and access rules [$PCP_PMCDCONF_PATH]
  -n, --namespace=PATH  name space (PMNS) [$PCP_VAR_DIR/pmns/root]
  -N, --uniqnames=PATH  as -n, but no metric may have two names
      --embedded        what is compiled in, even if PCP is installed
  -v, --verify          check all that would be read, and exit
      --watch           reload when a file of the configuration changes

Connections:
  -i, --interface=ADDR  accept connections at this address; may be repeated
  -p, --port=N[,N...]   accept connections at this port; may be repeated [44321]
  -s, --socket=PATH     Unix domain socket [$PCP_RUN_DIR/pmcd.socket]
  -S, --reqauth         clients must say who they are: over the Unix domain socket
  -Q, --remotecert      clients of other hosts need TLS, which is not there yet

Limits:
  -C, --maxctx=N        contexts of one client [64]
  -L, --maxbytes=N      bytes in a request [65536]
  -M, --maxmetric=N     metrics in a fetch [32768]
  -q SECONDS            for an agent to start [3]
  -t SECONDS            for an agent to answer; 0 is for ever [5]
      --late-grace=SECONDS  for one that did not, before it is started again;
                        0 is no time [10 times -t]

Diagnostics:
  -D, --debug=NAMES     debug options, separated by commas
  -x PATH               where failures at the start are copied [/dev/tty]
  -l, --log=PATH        log file; - is the standard error output [pmcd.log]
      --log-format=FORM text, or json for an object on each line [text]
  -T, --trace=BITS      events to remember: 1 connections, 2 PDUs, 256 unbuffered
  -?, --help            this text
  -V, --version         the version of this program, and of PCP

What pmcd does while it runs: pmcdctl --help
`

// Exit codes. Help and an unknown option are 0, as scripts of PCP count on it,
// but for a service: see [Options.Reject].
const (
	ExitOK    = 0
	ExitError = 1
)

// NotStarted prints that pmcd has not started, as C pmcd does, and returns the exit code.
func NotStarted(stderr io.Writer) int {
	fmt.Fprintln(stderr, "pmcd not started due to errors!")
	return ExitError
}

// Reject handles the error of [Parse]: it prints the usage, the version or what is wrong
// with the command line, and returns the exit code. failure is why pmcd has not started,
// or nil if it has done all that was asked for.
//
// For a service it prints one line, which its journal shows, and the exit code is that
// of a failure. C pmcd differs: an option that it does not know is the usage message and
// exit code 0, a service that has ended well.
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
		return ExitError, errors.New(why)
	case errors.Is(err, ErrHelp):
		fmt.Fprint(stderr, usageText)
	case errors.Is(err, ErrVersion):
		fmt.Fprint(stdout, version)
	case errors.As(err, &usage):
		fmt.Fprint(stderr, usage)
		if !usage.harmless {
			return NotStarted(stderr), errors.New(usage.short())
		}
	}
	return ExitOK, nil
}

// isService reports whether a command line that cannot be carried out because of err is
// that of a service: a service manager has started this process, or a script that the
// manager has started, or -F is given.
func (opt *Options) isService(err error, getenv func(string) string) bool {
	return getenv("NOTIFY_SOCKET") != "" || opt.Managed && errors.As(err, new(*UsageError))
}

// oneLine returns what is wrong with a command line in one line.
func oneLine(err error) string {
	if usage := (*UsageError)(nil); errors.As(err, &usage) {
		return strings.ReplaceAll(usage.short(), "\n", "; ")
	}
	return err.Error() + " is not for a service"
}

// A UsageError is what is wrong with the command line.
type UsageError struct {
	lines    []string // before the usage
	last     string   // after it: C pmcd says nothing of that; "" is nothing
	harmless bool     // C pmcd exits with 0
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
	b.WriteString(usageText)
	if e.last != "" {
		b.WriteString("pmcd: " + e.last + "\n")
	}
	return b.String()
}
