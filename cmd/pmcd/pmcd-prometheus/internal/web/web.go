// Package web serves metric families to Prometheus over HTTP.
//
//	/         a page with links to these
//	/metrics  the values
//	/healthz  200 as long as the program runs
//	/readyz   200 if pmcd answers and all its agents have settled, otherwise 503
//
// It has what it serves from a [Source]. Scrapers that come while values are being gathered get
// the same values.
package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"golang.org/x/sync/singleflight"
)

// A Source has the values. Its methods end with their context.
type Source interface {
	Gather(ctx context.Context) ([]*dto.MetricFamily, error)
	Ready(ctx context.Context) error
}

// A Config is what a Server needs.
type Config struct {
	Source Source

	// Timeout is how long the Source may take.
	Timeout time.Duration

	// OpenMetrics makes the server send OpenMetrics to scrapers that prefer it.
	OpenMetrics bool

	Log *slog.Logger
}

// Limits for clients, which may be hostile.
const (
	maxConns      = 64
	headerTimeout = 5 * time.Second  // for a request to come in
	idleTimeout   = 2 * time.Minute  // Prometheus scrapes once a minute
	writeTimeout  = 10 * time.Second // for a client to take the reply, besides the time to gather
	maxHeader     = 16 << 10
	stopTimeout   = 2 * time.Second
)

// A Server is an HTTP server for one Source.
type Server struct {
	conf  Config
	http  *http.Server
	conns conns

	life   context.Context // of what is gathered
	kill   context.CancelFunc
	flight singleflight.Group

	failed atomic.Bool // the last gathering; the log has a line when this changes
}

// New returns a Server that does not listen yet.
func New(c Config) *Server {
	s := &Server{conf: c}
	s.life, s.kill = context.WithCancel(context.Background())
	s.conns = conns{most: maxConns, log: c.Log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", start)
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	s.http = &http.Server{
		Handler:           s.conns.handler(mux),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      c.Timeout + writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
		ConnState:         s.conns.changed,
		ConnContext:       s.conns.context,
	}
	return s
}

// Serve serves until ctx ends. It closes the listener.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(l) }()
	defer s.kill()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if s.http.Shutdown(stop) != nil {
		s.http.Close()
	}
	<-failed
	return nil
}

// startPage is for people. It has nothing that is asked of a pmcd.
const startPage = `<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>pmcd-prometheus</title>
<h1>pmcd-prometheus</h1>
<p>Metrics of a pmcd, for Prometheus.</p>
<ul>
<li><a href="metrics">metrics</a>: the values</li>
<li><a href="readyz">readyz</a>: does pmcd answer, and have its agents settled?</li>
<li><a href="healthz">healthz</a>: does this program run?</li>
</ul>
</html>
`

func start(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	io.WriteString(w, startPage)
}

// metrics answers a scrape.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.timeout(r))
	defer cancel()
	select {
	case result := <-s.flight.DoChan("metrics", s.gather):
		if result.Err != nil {
			unavailable(w, result.Err)
			return
		}
		result.Val.(*snapshot).send(w, r, s.conf.OpenMetrics)
	case <-ctx.Done():
		unavailable(w, fmt.Errorf("no values in time: %w", ctx.Err()))
	}
}

func unavailable(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// gather returns a snapshot of the values. It does not end with the scrape that it was started
// for, because others wait for it, too.
func (s *Server) gather() (any, error) {
	ctx, cancel := context.WithTimeout(s.life, s.conf.Timeout)
	defer cancel()
	families, err := s.conf.Source.Gather(ctx)
	s.note(err)
	if err != nil {
		return nil, err
	}
	return &snapshot{families: families}, nil
}

// note logs that pmcd has begun, or ceased, to fail.
func (s *Server) note(err error) {
	failed := err != nil
	if errors.Is(err, context.Canceled) || s.failed.Swap(failed) == failed {
		return
	}
	if failed {
		s.conf.Log.Warn("no values for /metrics: {error}", "error", err)
	} else {
		s.conf.Log.Info("there are values for /metrics again")
	}
}

// timeoutHeader is how Prometheus says how many seconds it waits. marginOfTimeout is for the
// reply to arrive.
const (
	timeoutHeader   = "X-Prometheus-Scrape-Timeout-Seconds"
	marginOfTimeout = 200 * time.Millisecond
)

// timeout returns how long a scrape waits.
func (s *Server) timeout(r *http.Request) time.Duration {
	seconds, err := strconv.ParseFloat(r.Header.Get(timeoutHeader), 64)
	if err != nil || !(seconds > 0 && seconds < s.conf.Timeout.Seconds()) {
		return s.conf.Timeout
	}
	d := time.Duration(seconds * float64(time.Second))
	return max(d-marginOfTimeout, d/2)
}

// ready answers whether all agents have settled.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.timeout(r))
	defer cancel()
	select {
	case result := <-s.flight.DoChan("ready", func() (any, error) {
		ctx, cancel := context.WithTimeout(s.life, s.conf.Timeout)
		defer cancel()
		return nil, s.conf.Source.Ready(ctx)
	}):
		if result.Err != nil {
			unavailable(w, result.Err)
			return
		}
		fmt.Fprintln(w, "ok")
	case <-ctx.Done():
		unavailable(w, fmt.Errorf("no answer in time: %w", ctx.Err()))
	}
}

// format returns the format that a scraper prefers.
func format(h http.Header, openMetrics bool) expfmt.Format {
	if !openMetrics {
		return expfmt.FmtText
	}
	f := expfmt.NegotiateAccept(h, expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtOpenMetrics_0_0_1, expfmt.FmtText)
	switch { // f has parameters that do not matter here
	case f.FormatType() != expfmt.TypeOpenMetrics:
		return expfmt.FmtText
	case f.Version() == expfmt.OpenMetricsVersion_0_0_1:
		return expfmt.FmtOpenMetrics_0_0_1
	}
	return expfmt.FmtOpenMetrics_1_0_0
}

// acceptsGzip reports whether a client takes gzip.
func acceptsGzip(h http.Header) bool {
	for _, list := range h.Values("Accept-Encoding") {
		for item := range strings.SplitSeq(list, ",") {
			coding, params, _ := strings.Cut(item, ";")
			if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				q, ok := strings.CutPrefix(strings.TrimSpace(params), "q=")
				weight, err := strconv.ParseFloat(q, 64)
				return !ok || err == nil && weight > 0
			}
		}
	}
	return false
}
