package openmetrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// A server that is the target of a redirect does not get the headers of the file, nor does another
// port of the same host.
func TestRedirectsWithoutHeaders(t *testing.T) {
	h := newHost(t)
	var got http.Header
	var asked string
	page := func(w http.ResponseWriter, r *http.Request) {
		got, asked = r.Header, r.Host
		fmt.Fprint(w, "x 1\n")
	}
	other := httptest.NewServer(http.HandlerFunc(page))
	defer other.Close()
	h.pages["/page"] = page
	for _, tt := range []struct {
		name, to string
		sent     bool
	}{
		{"same", "/page", true},
		{"port", other.URL + "/page", false},
		{"host", strings.Replace(h.url, "127.0.0.1", "localhost", 1) + "/page", false},
		{"scheme-relative", strings.Replace(strings.TrimPrefix(h.url, "http:"), "127.0.0.1", "localhost", 1) + "/page", false},
	} {
		h.handle("a", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, tt.to, http.StatusFound) },
			"HEADER: X-Token: secret", "HEADER: Authorization: Bearer secret", "HEADER: Cookie: secret", "HEADER: Host: secret.example", "HEADER: User-Agent: secret")
		a := h.start(Options{})
		if v := values(t, a, "a"); v != "a.x 1" {
			t.Errorf("%s: %s", tt.name, v)
		}
		for _, name := range []string{"X-Token", "Authorization", "Cookie", "User-Agent"} {
			if sent := strings.Contains(got.Get(name), "secret"); sent != tt.sent {
				t.Errorf("%s: the header %s is %q", tt.name, name, got.Get(name))
			}
		}
		if sent := asked == "secret.example"; sent != tt.sent {
			t.Errorf("%s: the host is %s", tt.name, asked)
		}
		a.Close()
	}
}

// From http to https on the usual ports, a redirect leads to the same server.
func TestSameServer(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		want     bool
	}{
		{"http://a/x", "http://A:80/y", true},
		{"http://a/x", "https://a/x", true},
		{"http://a:9100/x", "https://a:9100/x", false},
		{"https://a/x", "http://a/x", false},
		{"http://a/x", "http://b.a/x", false},
		{"http://[::1]:9/", "http://[::1]:9/", true},
	} {
		from, _ := url.Parse(tt.from)
		to, _ := url.Parse(tt.to)
		if got := sameServer(from, to); got != tt.want {
			t.Errorf("%s to %s: %v", tt.from, tt.to, got)
		}
	}
}
