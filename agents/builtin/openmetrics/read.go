package openmetrics

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// maxRedirects is how many redirects of a URL are followed.
const maxRedirects = 10

// newClient returns the client for all sources. The proxy is that of the environment.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
				return fmt.Errorf("redirect to a URL of %.20q, not http or https", r.URL.Scheme)
			}
			if len(via) >= maxRedirects {
				return errors.New("too many redirects")
			}
			if !sameServer(via[0].URL, r.URL) {
				// The file's headers, which may have passwords, are for the server that it names.
				r.Host, r.Header = "", commonHeader()
			}
			return nil
		},
	}
}

// commonHeader returns what all sources are asked with.
func commonHeader() http.Header {
	return http.Header{"Accept": {"*/*"}, "User-Agent": {"pmdaopenmetrics"}}
}

// sameServer reports whether a redirect leads to the server that the *.url file names: another port may
// be another exporter's. From http to https on the usual ports it is the same.
func sameServer(from, to *url.URL) bool {
	port := func(u *url.URL) string {
		return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	}
	return strings.EqualFold(from.Hostname(), to.Hostname()) && (from.Scheme == to.Scheme && port(from) == port(to) ||
		from.Scheme == "http" && to.Scheme == "https" && port(from) == "80" && port(to) == "443")
}

// readURL reads the page of a *.url file.
func (a *agent) readURL(ctx context.Context, p *page) (status int, err error) {
	u := p.file.url
	if u.Scheme == "file" {
		f, err := regular.Open(strings.TrimPrefix(p.file.text, "file://"))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		return 0, p.read(ctxReader{ctx, f})
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, err
	}
	r.Header = commonHeader()
	for _, h := range p.file.headers {
		if strings.EqualFold(h[0], "Host") {
			r.Host = h[1]
		}
		r.Header.Set(h[0], h[1])
	}
	resp, err := a.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		return resp.StatusCode, fmt.Errorf("HTTP status %.100s", resp.Status)
	}
	p.latin1 = isLatin1(resp.Header.Get("Content-Type"))
	body := io.Reader(resp.Body)
	if !resp.Uncompressed && strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") { // a HEADER line has asked for it
		z, err := gzip.NewReader(body)
		if err != nil {
			return resp.StatusCode, err
		}
		body = z
	}
	return resp.StatusCode, p.read(body)
}

// isLatin1 reports whether a page is in Latin-1. That is the default of HTTP 1.1 for text, which
// PCP's agent follows: instances are numbered by their names as it reads them.
func isLatin1(contentType string) bool {
	typ, params, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(params["charset"])
	return err == nil && (charset == "iso-8859-1" || charset == "latin1" || charset == "" && strings.HasPrefix(typ, "text/"))
}

// A ctxReader reads a file, which may not end, until ctx does.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}

// readScript runs a script and reads its output. At the end of ctx the script and its children
// are killed.
func (a *agent) readScript(ctx context.Context, p *page) (status int, err error) {
	in, out, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	cmd := exec.CommandContext(ctx, p.src.path)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Start()
	out.Close()
	if err != nil {
		return 0, err
	}
	// A child that has left the process group can keep the pipe open.
	if t, ok := ctx.Deadline(); ok {
		in.SetReadDeadline(t)
	}
	err = p.read(in)
	if err != nil {
		cmd.Cancel()
	}
	return 0, errors.Join(err, cmd.Wait())
}
