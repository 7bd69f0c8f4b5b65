// OpenSSL takes certificates with a negative serial number, and RSA keys with wrong CRT values.
//
//go:debug x509negativeserial=1
//go:debug x509rsacrt=0

// Command pmcd-prometheus serves metrics of a pmcd to Prometheus (pmcd-prometheus(1)). It is a
// client of pmcd and a process of its own: pmcd itself has no HTTP server and no library for
// one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/clientcert"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/version"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcd-prometheus/internal/gather"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcd-prometheus/internal/web"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// programName is the name of this program in messages.
const programName = "pmcd-prometheus"

// Exit codes.
const (
	exitOK     = 0 // ended by a signal
	exitFailed = 1 // cannot listen
	exitUsage  = 3 // wrong arguments, as with pmcdctl
)

const (
	defaultListen  = "127.0.0.1:44324"
	defaultTimeout = 8 * time.Second // Prometheus waits 10 seconds
)

// defaultMetrics are what dashboards and alerts about a host need: a few hundred series on
// most hosts. Metrics with values for each CPU or process are not part of it.
var defaultMetrics = strings.Fields(`
	hinv.ncpu hinv.ndisk hinv.physmem hinv.pagesize
	kernel.all
	mem.physmem mem.freemem mem.util mem.vmstat.oom_kill mem.vmstat.pgmajfault
	swap
	disk.all disk.dev disk.md filesys filesys.mountdir
	network.interface network.sockstat network.tcpconn
	network.tcp.activeopens network.tcp.passiveopens network.tcp.attemptfails network.tcp.estabresets
	network.tcp.currestab network.tcp.insegs network.tcp.outsegs network.tcp.retranssegs network.tcp.inerrs
	network.tcp.outrsts network.tcp.listendrops network.tcp.listenoverflows network.tcp.timeouts
	network.udp.indatagrams network.udp.outdatagrams network.udp.noports network.udp.inerrors
	network.udp.recvbuferrors network.udp.sndbuferrors
	pmcd.agent.status pmcd.numagents pmcd.numclients
`)

const help = `Serve metrics of a pmcd to Prometheus: /metrics, /healthz and /readyz, and a page
with links to them.

A METRIC is the name of a metric, or of a node in the name space for all metrics
below. Without one, metrics of the kernel, memory, disks, file systems and the
network are served; "default" stands for these beside others. A string is served
if a METRIC is its own name: filesys.mountdir is filesys_mountdir_info.

Exit codes: 0 ended by a signal, 1 it cannot listen, 3 wrong arguments.`

// build is the version that a packager gives, by -ldflags "-X main.build=...".
var build string

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

type options struct {
	host, listen string
	timeout      time.Duration
	openMetrics  bool
	metrics      []string
}

// run runs the program and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ends := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	// nohup(1) ignores SIGHUP, and a shell ignores SIGINT for what it runs in the background.
	ctx, cancel := signal.NotifyContext(context.Background(), slices.DeleteFunc(ends, signal.Ignored)...)
	defer cancel()
	code := exitUsage // until the options are right
	var o options
	showVersion := false
	cmd := &cobra.Command{
		Use:               programName + " [METRIC...]",
		Long:              help,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, metrics []string) error {
			if showVersion { // see version.Text
				_, err := io.WriteString(cmd.OutOrStdout(), version.Text(programName, version.Of(build)))
				return err
			}
			o.metrics = metrics
			if _, err := pmapi.ParseSpec(o.host); err != nil {
				return fmt.Errorf("-h: %w", err)
			}
			if o.timeout < time.Second || o.timeout > time.Hour {
				return errors.New("--timeout: it must be between 1s and 1h")
			}
			code = exitFailed
			err := serve(cmd.Context(), o, newLog(stderr))
			if err == nil {
				code = exitOK
			}
			return err
		},
	}
	f := cmd.Flags()
	f.Bool("help", false, "print this text") // without -h, which is the host
	f.BoolVarP(&showVersion, "version", "V", false, "print the version")
	f.StringVarP(&o.host, "host", "h", "", "`host` of the pmcd, as in PCPIntro(1) [$PMCD_HOST, else local:]")
	f.StringVar(&o.listen, "listen", defaultListen, "`address` and port to listen at")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "`time` that pmcd may take")
	f.BoolVar(&o.openMetrics, "openmetrics", false, "send OpenMetrics to scrapers that prefer it: counters are other series, with _total")
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", programName, err)
		if code == exitUsage {
			fmt.Fprintf(stderr, "try: %s --help\n", programName)
		}
		return code
	}
	return exitOK // also for --help and --version
}

// newLog returns a log. The journal has times of its own.
func newLog(w io.Writer) *slog.Logger {
	if isJournal(w) {
		return slog.New(logtext.NewJournalHandler(w, slog.LevelInfo))
	}
	return slog.New(logtext.NewHandler(w, programName, slog.LevelInfo))
}

// isJournal reports whether w is the stream to the journal that JOURNAL_STREAM names by device and
// inode (systemd.exec(5)): programs inherit the variable, and may have other files for output.
func isJournal(w io.Writer) bool {
	var st syscall.Stat_t
	f, ok := w.(*os.File)
	return ok && syscall.Fstat(int(f.Fd()), &st) == nil && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// serve serves until ctx ends.
func serve(ctx context.Context, o options, log *slog.Logger) error {
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	log.Info("serving {url}", "url", fmt.Sprintf("http://%s/metrics", l.Addr()))
	g := gather.New(gather.Config{
		Dial: func(ctx context.Context) (gather.Client, error) {
			// Scrapes are some time apart, so that each may try.
			return pmapi.Dial(ctx, o.host, pmapi.Options{
				TLS:       clientcert.Config(),
				Reconnect: &pmapi.Backoff{Min: 100 * time.Millisecond, Max: time.Second},
			})
		},
		Metrics:  metricsOf(o),
		Optional: len(o.metrics) == 0,
		Log:      log,
	})
	s := web.New(web.Config{Source: g, Timeout: o.timeout, OpenMetrics: o.openMetrics, Log: log})
	return s.Serve(ctx, l)
}

func metricsOf(o options) (metrics []string) {
	if len(o.metrics) == 0 {
		return defaultMetrics
	}
	for _, m := range o.metrics {
		if m == "default" {
			metrics = append(metrics, defaultMetrics...)
		} else {
			metrics = append(metrics, m)
		}
	}
	return metrics
}
