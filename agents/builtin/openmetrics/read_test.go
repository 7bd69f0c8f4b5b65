package openmetrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A redirect to another server is refused, unless a line of the file allows it. That server does not
// get the headers of the file.
func TestRedirects(t *testing.T) {
	h := newHost(t)
	var got http.Header
	var asked string
	page := func(w http.ResponseWriter, r *http.Request) {
		got, asked = r.Header, r.Host
		fmt.Fprint(w, "x 1\n")
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			http.Redirect(w, r, h.url+"/page", http.StatusFound)
			return
		}
		page(w, r)
	}))
	defer other.Close()
	h.pages["/page"] = page
	h.pages["/hop"] = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/page", http.StatusTemporaryRedirect)
	}
	to, port := strings.TrimPrefix(other.URL, "http://"), h.url[strings.LastIndexByte(h.url, ':'):]
	const followed, withHeaders = 1, 2
	for _, tt := range []struct {
		name, to string
		lines    []string
		want     int
	}{
		{"relative", "/page", nil, withHeaders},
		{"same server", h.url + "/page", nil, withHeaders},
		{"in two steps", "/hop", nil, 0},
		{"port", other.URL + "/page", nil, 0},
		{"port, allowed", other.URL + "/page", []string{"# pmcd: redirect example.com:1", "#pmcd: redirect " + to}, followed},
		{"in two steps, allowed", "/hop", []string{"# pmcd: redirect " + to}, followed},
		{"there and back", other.URL + "/back", []string{"# pmcd: redirect " + to}, withHeaders},
		{"host", "http://localhost" + port + "/page", nil, 0},
		{"host, allowed", "http://LOCALHOST" + port + "/page", []string{"# pmcd: redirect LocalHost" + port}, followed},
		{"scheme-relative", "//localhost" + port + "/page", nil, 0},
		{"another way to write the address", "http://127.1" + port + "/page", nil, 0},
		{"a dot after the host", h.url[:strings.LastIndexByte(h.url, ':')] + "." + port + "/page", nil, 0},
		{"user information", "http://127.0.0.1" + port + "@" + to + "/page", nil, 0},
		{"scheme", "file:///etc/passwd", []string{"# pmcd: redirect " + to}, 0},
		{"scheme, allowed", "ftp://" + to + "/", []string{"# pmcd: redirect " + to}, 0},
		{"https on the same port", strings.Replace(h.url, "http:", "https:", 1) + "/page", nil, 0},
		{"no host", "http:///page", nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, asked = nil, ""
			defer func() { os.RemoveAll(h.dir) }()
			name := strings.Map(func(r rune) rune { return map[bool]rune{true: r, false: '_'}['a' <= r && r <= 'z'] }, tt.name)
			h.handle(name, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, tt.to, http.StatusFound) },
				append([]string{"HEADER: X-Token: secret", "HEADER: Authorization: Bearer secret", "HEADER: Cookie: secret", "HEADER: Host: secret.example", "HEADER: User-Agent: secret"}, tt.lines...)...)
			a := h.start(Options{})
			v, want := values(t, a, name), name+".x 1"
			if tt.want == 0 {
				want = name + ": no metric of that name"
			}
			if v != want {
				t.Errorf("%s, want %s; %s", v, want, status(t, a, name))
			}
			if text := status(t, a, name); (text == "success") != (tt.want > 0) {
				t.Errorf("status %s", text)
			}
			for _, header := range []string{"X-Token", "Authorization", "Cookie", "User-Agent", "Referer"} {
				if sent := got.Get(header); strings.Contains(sent, "secret") && tt.want != withHeaders || sent == "" && tt.want == withHeaders {
					t.Errorf("the header %s is %q", header, sent)
				}
			}
			if asked == "secret.example" && tt.want != withHeaders {
				t.Errorf("the host is %s", asked)
			}
			a.Close()
		})
	}
}

// The status says which server a redirect led to, and which line would allow it.
func TestRedirectIsReported(t *testing.T) {
	h := newHost(t)
	h.handle("a", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://Intern.Example/metrics?"+strings.Repeat("x", 10_000), http.StatusFound)
	})
	a := h.start(Options{})
	got := status(t, a, "a")
	for _, want := range []string{"another server", "intern.example:80", "# pmcd: redirect HOST:PORT"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if len(got) > 1100 {
		t.Errorf("the status has %d bytes", len(got))
	}
}

// A password in the URL goes to the server of the URL, also after a redirect.
func TestRedirectsWithPassword(t *testing.T) {
	h := newHost(t)
	var same, others atomic.Value
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		others.Store(user)
		fmt.Fprint(w, "x 1\n")
	}))
	defer other.Close()
	h.pages["/page"] = func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		same.Store(user)
		fmt.Fprint(w, "x 1\n")
	}
	h.pages["/same"] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, h.url+"/page", http.StatusFound) }
	h.pages["/other"] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }
	withUser := strings.Replace(h.url, "//", "//user:secret@", 1)
	h.file("same.url", withUser+"/same", 0o644)
	h.file("other.url", withUser+"/other\n# pmcd: redirect "+strings.TrimPrefix(other.URL, "http://"), 0o644)
	a := h.start(Options{})
	if got := values(t, a, "same", "other"); got != "same.x 1\nother.x 1" || same.Load() != "user" || others.Load() != "" {
		t.Errorf("%s; users %q and %q", got, same.Load(), others.Load())
	}
}

// What a page declares does not count for a page from another endpoint: neither the type string, which
// would show a secret, nor the name.
func TestEndpointChanges(t *testing.T) {
	h := newHost(t)
	intern := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "token secret\nn 2\nm{l=\"2\"} 2\n")
	}))
	defer intern.Close()
	const page = "# PCP5 shown 1.1.1 string PM_INDOM_NULL instant none\ntoken text\n" +
		"# PCP5 later 1.1.1 string PM_INDOM_NULL instant none\nlater text\n" +
		"# HELP m same\n# TYPE m gauge\nm{l=\"1\"} 1\n# TYPE x gauge\nn 1\n"
	lines := "# pmcd: redirect " + strings.TrimPrefix(intern.URL, "http://")
	h.source("a", page, lines)
	a := h.start(Options{})
	check := func(when, want string) {
		t.Helper()
		if got := values(t, a, "a"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", when, got, want)
		}
	}
	const first = `a.later "text"` + "\n" + `a.m "0 l:1" 1` + "\na.n 1\n" + `a.shown "text"`
	check("at first", first)
	numbers := h.savedFile(1)
	for _, status := range []int{http.StatusFound, http.StatusPermanentRedirect} {
		h.handle("a", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, intern.URL, status) })
		values(t, a, "a")
		want := "a.later not available now\n" + `a.m "1 l:2" 2` + "\na.n 2\na.token not available now"
		check("redirected", want)
		check("redirected again", want)
		if _, err := a.PMID(t.Context(), agents.Origin{}, "openmetrics.a.shown"); err != pdu.ErrnoName {
			t.Errorf("the name that the first page gave: %v", err)
		}
	}
	// It declares a metric only in its second page.
	h.pages["/intern"] = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "n 3\nlater secret\n") }
	h.handle("a", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/intern", http.StatusFound) })
	values(t, a, "a")
	check("on the same server", "a.later not available now\na.m not available now\na.n 3\na.token not available now")
	h.handle("a", func(w http.ResponseWriter, _ *http.Request) { // it is cut
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, page)
	})
	values(t, a, "a")
	check("cut", "a.later not available now\na.m not available now\na.n not available now\na.token not available now")
	h.source("a", page)
	values(t, a, "a")
	check("as at first", first)
	if got := h.savedFile(1); got != numbers {
		t.Errorf("the numbers were %q and are %q", numbers, got)
	}
	s, names := a.sources[0], 0
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.byItem {
		if m.insts != nil {
			names += len(m.insts.names)
		}
	}
	if s.names != names {
		t.Errorf("%d names of instances are counted, and there are %d", s.names, names)
	}
}

// From http to https on the usual ports, a redirect leads to the same server.
func TestSameServer(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		want     bool
	}{
		{"http://a/x", "http://A:80/y", true},
		{"http://a:/x", "http://a/y", true},
		{"http://a/x", "https://a/x", true},
		{"http://a:80/x", "https://A:443/x", true},
		{"http://a/x", "https://a:8443/x", false},
		{"http://a:9100/x", "https://a:9100/x", false},
		{"http://a:9100/x", "https://a/x", false},
		{"https://a/x", "http://a/x", false},
		{"https://a:80/x", "http://a:80/x", false},
		{"http://a/x", "http://b.a/x", false},
		{"http://a/x", "http://a./x", false},
		{"http://localhost:9100/x", "http://127.0.0.1:9100/x", false},
		{"http://127.0.0.1:9100/x", "http://127.0.0.2:9100/x", false},
		{"http://[::1]:9/", "http://[::1]:9/", true},
		{"http://[::1]:9/", "http://[::1%25lo]:9/", false},
	} {
		from, _ := url.Parse(tt.from)
		to, _ := url.Parse(tt.to)
		if got := sameServer(from, to); got != tt.want {
			t.Errorf("%s to %s: %v", tt.from, tt.to, got)
		}
	}
}
