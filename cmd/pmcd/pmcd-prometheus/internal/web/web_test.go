package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/gopcp/pmcd/internal/logtext"
)

// A source has one counter, the number of calls of Gather.
type source struct {
	calls atomic.Int64
	wait  func(context.Context) error // what each call does first, if it is not nil
	more  []*dto.MetricFamily
}

func (s *source) Gather(ctx context.Context) ([]*dto.MetricFamily, error) {
	n := float64(s.calls.Add(1))
	if s.wait != nil {
		if err := s.wait(ctx); err != nil {
			return nil, err
		}
	}
	return append([]*dto.MetricFamily{counter("calls", n)}, s.more...), nil
}

func (s *source) Ready(ctx context.Context) error {
	if s.wait != nil {
		return s.wait(ctx)
	}
	return nil
}

func counter(name string, x float64) *dto.MetricFamily {
	return &dto.MetricFamily{
		Name: &name, Type: dto.MetricType_COUNTER.Enum(), Metric: []*dto.Metric{{Counter: &dto.Counter{Value: &x}}},
	}
}

// newServer returns a Server and its log.
func newServer(src Source, openMetrics bool) (*Server, *bytes.Buffer) {
	logged := new(bytes.Buffer)
	return New(Config{Source: src, Timeout: 8 * time.Second, OpenMetrics: openMetrics, Log: slog.New(logtext.NewJournalHandler(logged, slog.LevelInfo))}), logged
}

// get answers a request. Names and values of headers alternate.
func (s *Server) get(ctx context.Context, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	return w
}

const (
	textType    = "text/plain; version=0.0.4; charset=utf-8"
	openType    = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	plainBody   = "# TYPE calls counter\ncalls 1\n# TYPE x_total counter\nx_total 2\n# TYPE x counter\nx 3\n"
	openBody    = "# TYPE calls counter\ncalls_total 1.0\n# TYPE x counter\nx_total 2.0\n# EOF\n"
	prometheus2 = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
	prometheus3 = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7," + prometheus2
)

func TestFormats(t *testing.T) {
	for _, tt := range []struct {
		name      string
		open      bool
		accept    string
		typ, body string
	}{
		{"without a preference", false, "", textType, plainBody},
		{"without a preference, with --openmetrics", true, "", textType, plainBody},
		{"Prometheus 2", false, prometheus2, textType, plainBody},
		{"Prometheus 2, with --openmetrics", true, prometheus2, openType, openBody},
		{"with protocol buffers", false, prometheus3, textType, plainBody},
		{"with protocol buffers and --openmetrics", true, prometheus3, openType, openBody},
		{"a preference for text, with --openmetrics", true, "text/plain;version=0.0.4,application/openmetrics-text;q=0.1", textType, plainBody},
		{"garbage", true, ";;q=,\x01", textType, plainBody},
		{"another version of OpenMetrics", true, "application/openmetrics-text;version=9.0.0", textType, plainBody},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := newServer(&source{more: []*dto.MetricFamily{counter("x_total", 2), counter("x", 3)}}, tt.open)
			w := s.get(t.Context(), "/metrics", "Accept", tt.accept)
			if got := w.Header().Get("Content-Type"); w.Code != 200 || got != tt.typ || w.Body.String() != tt.body {
				t.Errorf("%d, %q\n%s\nwant %q\n%s", w.Code, got, w.Body, tt.typ, tt.body)
			}
		})
	}
}

// Of metrics whose names differ only in OpenMetrics, those stay that are not the same there.
func TestNamesOfOpenMetrics(t *testing.T) {
	gauge := func(name string) *dto.MetricFamily {
		return &dto.MetricFamily{Name: &name, Type: dto.MetricType_GAUGE.Enum()}
	}
	for _, tt := range []struct {
		families []*dto.MetricFamily
		want     string
	}{
		{[]*dto.MetricFamily{gauge("x"), gauge("x_total")}, "x x_total"},
		{[]*dto.MetricFamily{gauge("x_total"), gauge("x")}, "x_total x"},
		{[]*dto.MetricFamily{counter("x", 1), gauge("x_total")}, "x_total"},
		{[]*dto.MetricFamily{gauge("x_total"), counter("x", 1)}, "x_total"},
		{[]*dto.MetricFamily{gauge("x"), counter("x_total", 1)}, "x"},
		{[]*dto.MetricFamily{counter("x_total", 1), gauge("x")}, "x_total"},
	} {
		var got []string
		for _, f := range openMetrics(tt.families) {
			got = append(got, f.GetName())
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%v: got %q, want %s", tt.families, got, tt.want)
		}
	}
}

// The page has links to all that there is, and is not in the way of other paths.
func TestStartPage(t *testing.T) {
	s, _ := newServer(&source{}, false)
	w := s.get(t.Context(), "/")
	if got := w.Header().Get("Content-Type"); w.Code != 200 || got != "text/html; charset=utf-8" {
		t.Errorf("%d, %s\n%s", w.Code, got, w.Body)
	}
	links := regexp.MustCompile(`<a href="(.*?)"`).FindAllStringSubmatch(w.Body.String(), -1)
	if len(links) != 3 {
		t.Errorf("links: %q", links)
	}
	for _, link := range links {
		if w := s.get(t.Context(), "/"+link[1]); w.Code != 200 {
			t.Errorf("%s: %d", link[1], w.Code)
		}
	}
	if w := s.get(t.Context(), "/metric"); w.Code != 404 {
		t.Errorf("/metric: %d", w.Code)
	}
}

func TestGzip(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "gzip": true, "deflate, GZIP;q=0.5": true, "gzip;q=0": false, "br": false, "gzip;q=x": false, "identity;q=1, gzip; q=1.0": true,
	} {
		s, _ := newServer(&source{}, false)
		w := s.get(t.Context(), "/metrics", "Accept-Encoding", accept)
		body := io.Reader(w.Body)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != want {
			t.Errorf("%q: gzip %v, want %v", accept, got, want)
			continue
		}
		if want {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		if text, err := io.ReadAll(body); err != nil || string(text) != "# TYPE calls counter\ncalls 1\n" {
			t.Errorf("%q: %q, %v", accept, text, err)
		}
	}
}

func TestPaths(t *testing.T) {
	s, _ := newServer(&source{}, false)
	for _, tt := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/healthz", 200, "ok\n"},
		{"GET", "/readyz", 200, "ok\n"},
		{"HEAD", "/metrics", 200, ""},
		{"POST", "/metrics", 405, ""},
		{"GET", "/", 200, startPage},
		{"GET", "/metrics/x", 404, ""},
	} {
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if w.Code != tt.code || tt.body != "" && w.Body.String() != tt.body {
			t.Errorf("%s %s: %d %q", tt.method, tt.path, w.Code, w.Body)
		}
	}
}

// Scrapers that come while values are gathered share them, and those that have left change
// nothing.
func TestOneFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		src := &source{wait: func(ctx context.Context) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		s, _ := newServer(src, false)
		const scrapers = 100
		replies := make(chan *httptest.ResponseRecorder, scrapers)
		first, leave := context.WithCancel(t.Context())
		gone := make(chan *httptest.ResponseRecorder, 1)
		go func() { gone <- s.get(first, "/metrics") }()
		synctest.Wait()
		for range scrapers {
			go func() { replies <- s.get(t.Context(), "/metrics") }()
		}
		synctest.Wait()
		leave()
		if w := <-gone; w.Code != 503 {
			t.Errorf("the first: %d", w.Code)
		}
		close(release)
		for range scrapers {
			if w := <-replies; w.Code != 200 || w.Body.String() != "# TYPE calls counter\ncalls 1\n" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		if n := src.calls.Load(); n != 1 {
			t.Errorf("%d fetches for %d scrapers", n, scrapers)
		}
		if w := s.get(t.Context(), "/metrics"); !strings.Contains(w.Body.String(), "calls 2") {
			t.Errorf("the next: %s", w.Body)
		}
	})
}

// A scraper gets an answer before its time is up, and a pmcd that does not answer holds up no
// later one.
func TestTimeouts(t *testing.T) {
	for _, tt := range []struct {
		header string
		want   time.Duration
	}{
		{"", 8 * time.Second}, {"3", 2800 * time.Millisecond}, {"0.1", 50 * time.Millisecond}, {"60", 8 * time.Second},
		{"-1", 8 * time.Second}, {"NaN", 8 * time.Second}, {"x", 8 * time.Second}, {"1e-300", 0}, {"inf", 8 * time.Second},
	} {
		for _, path := range []string{"/metrics", "/readyz"} {
			t.Run(path+" "+tt.header, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					src := &source{wait: func(ctx context.Context) error {
						<-ctx.Done()
						return ctx.Err()
					}}
					s, _ := newServer(src, false)
					start := time.Now()
					w := s.get(t.Context(), path, timeoutHeader, tt.header)
					if d := time.Since(start); w.Code != 503 || d != tt.want {
						t.Errorf("%d after %v, want %v", w.Code, d, tt.want)
					}
					time.Sleep(8 * time.Second) // the call has ended
					synctest.Wait()
					src.wait = nil
					if w := s.get(t.Context(), path); w.Code != 200 {
						t.Errorf("later: %d %s", w.Code, w.Body)
					}
				})
			})
		}
	}
}

// The log has a line when pmcd begins to fail and when that is over.
func TestFailures(t *testing.T) {
	src := &source{}
	s, logged := newServer(src, false)
	failed := errors.New("no pmcd")
	for _, err := range []error{nil, failed, failed, context.Canceled, nil, nil, failed} {
		src.wait = func(context.Context) error { return err }
		want := 200
		if err != nil {
			want = 503
		}
		if w := s.get(t.Context(), "/metrics"); w.Code != want || err != nil && w.Body.String() != err.Error()+"\n" {
			t.Errorf("%v: %d %s", err, w.Code, w.Body)
		}
	}
	const want = "<4>no values for /metrics: no pmcd\n<6>there are values for /metrics again\n<4>no values for /metrics: no pmcd\n"
	if logged.String() != want {
		t.Errorf("log:\n%s", logged)
	}
	src.wait = func(context.Context) error { return failed }
	if w := s.get(t.Context(), "/readyz"); w.Code != 503 || w.Body.String() != "no pmcd\n" {
		t.Errorf("/readyz: %d %s", w.Code, w.Body)
	}
	if w := s.get(t.Context(), "/healthz"); w.Code != 200 {
		t.Errorf("/healthz: %d", w.Code)
	}
}

// Whatever the headers are, there is a reply in a format that was allowed.
func FuzzHeaders(f *testing.F) {
	f.Add(prometheus2, "gzip", "10")
	f.Add(prometheus3, "gzip;q=0.001, *", "1e99")
	f.Add("application/openmetrics-text;version=0.0.1;escaping=values", ";,=", "-0")
	s, _ := newServer(&source{}, true)
	f.Fuzz(func(t *testing.T, accept, encoding, timeout string) {
		w := s.get(t.Context(), "/metrics", "Accept", accept, "Accept-Encoding", encoding, timeoutHeader, timeout)
		typ := w.Header().Get("Content-Type")
		if w.Code == 200 && typ != textType && !strings.HasPrefix(typ, "application/openmetrics-text; version=") {
			t.Errorf("%q: %q", accept, typ)
		}
		if w.Code != 200 && w.Code != 503 {
			t.Errorf("status %d", w.Code)
		}
	})
}
