package openmetrics

import (
	"bufio"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// maxRedirects is how many redirects of a URL are followed.
const maxRedirects = 10

// newTransport returns the transport for all sources. The proxy is that of the environment.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// checkRedirect is the CheckRedirect of an http.Client. A redirect to another server needs a line of
// the file: with redirects and the types that a page declares, a hostile exporter could otherwise
// show clients what services of this host and its network reply.
//
// C differs: it follows a redirect to any server.
func (f *urlFile) checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case r.URL.Scheme != "http" && r.URL.Scheme != "https":
		return fmt.Errorf("redirect to a URL of %.20q, not http or https", r.URL.Scheme)
	case len(via) >= maxRedirects:
		return errors.New("too many redirects")
	case sameServer(via[0].URL, r.URL):
		return nil
	case !slices.Contains(f.redirects, hostPort(r.URL)):
		return fmt.Errorf("redirect to another server, %.300q; a line \"# pmcd: redirect HOST:PORT\" would allow it", hostPort(r.URL))
	}
	// The file's headers, which may have passwords, are for the server that it names.
	r.Host, r.Header = "", commonHeader()
	return nil
}

// commonHeader returns what all sources are asked with.
func commonHeader() http.Header {
	return http.Header{"Accept": {"*/*"}, "User-Agent": {"pmdaopenmetrics"}}
}

// sameServer reports whether a redirect leads to the server that the *.url file names: another port,
// or another address of this host, may be another exporter's. From http to https on the usual ports
// it is the same.
func sameServer(from, to *url.URL) bool {
	if from.Scheme == "http" && to.Scheme == "https" && port(from) == "80" && port(to) == "443" {
		return strings.EqualFold(from.Hostname(), to.Hostname())
	}
	return from.Scheme == to.Scheme && hostPort(from) == hostPort(to)
}

func port(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// hostPort returns the host and port of a URL in the form that the lines for redirects have, too.
func hostPort(u *url.URL) string { return net.JoinHostPort(strings.ToLower(u.Hostname()), port(u)) }

// readURL reads the page of a *.url file.
func (a *agent) readURL(ctx context.Context, p *page) (status int, err error) {
	u := p.file.url
	if u.Scheme == "file" {
		f, err := openFile(strings.TrimPrefix(p.file.text, "file://"))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		p.src.from(p.file.text)
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
	if u.User != nil && r.Header.Get("Authorization") == "" { // net/http itself would leave it out after a redirect
		password, _ := u.User.Password()
		r.SetBasicAuth(u.User.Username(), password)
	}
	client := http.Client{Transport: a.transport, CheckRedirect: p.file.checkRedirect}
	resp, err := client.Do(r)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return 0, e.Err // without the URL, which a redirect may have made long
	}
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		return resp.StatusCode, fmt.Errorf("HTTP status %.100s", resp.Status)
	}
	p.src.from(endpoint(resp.Request.URL))
	body, err := decompress(resp)
	if err != nil {
		return resp.StatusCode, err
	}
	return resp.StatusCode, p.read(decode(body, resp.Header.Get("Content-Type")))
}

// endpoint returns where a page is from.
func endpoint(u *url.URL) string {
	p := *u
	p.User, p.RawQuery, p.ForceQuery, p.Fragment, p.RawFragment = nil, "", false, "", "" // a query may be another each time
	return p.String()
}

// maxEncodings is how many times a page may be compressed.
const maxEncodings = 2

// decompress returns the body of a reply without the compression that the server names. net/http
// itself knows gzip only, and only if it has asked for it. As in PCP's agent, a word that is not of a
// compression has no meaning.
func decompress(resp *http.Response) (io.Reader, error) {
	var codes []string
	for code := range strings.SplitSeq(strings.ToLower(strings.Join(resp.Header.Values("Content-Encoding"), ",")), ",") {
		switch code = strings.TrimSpace(code); code {
		case "gzip", "x-gzip", "deflate":
			codes = append(codes, code)
		case "br", "zstd", "compress", "x-compress":
			return nil, fmt.Errorf("the page has the compression %s, which was not asked for", code)
		}
	}
	if len(codes) > maxEncodings {
		return nil, fmt.Errorf("the page is compressed %d times", len(codes))
	}
	body := io.Reader(resp.Body)
	for _, code := range slices.Backward(codes) {
		in := bufio.NewReader(body)
		head, err := in.Peek(2)
		switch {
		case err == io.EOF && len(head) == 0: // an empty page
			return in, nil
		case code != "deflate":
			if body, err = gzip.NewReader(in); err != nil {
				return nil, err
			}
		case len(head) == 2 && head[0]&0xf == 8 && (int(head[0])<<8|int(head[1]))%31 == 0:
			if body, err = zlib.NewReader(in); err != nil {
				return nil, err
			}
		default: // some servers leave out the head of zlib
			body = flate.NewReader(in)
		}
	}
	return body, nil
}

// decode returns a page in UTF-8. If the server names no charset, or one that is not known, the page
// is in UTF-8.
//
// C differs: a page whose type has the word "text" is in Latin-1 then.
func decode(body io.Reader, contentType string) io.Reader {
	_, params, _ := mime.ParseMediaType(contentType)
	var e encoding.Encoding
	switch charset := strings.ToLower(strings.Trim(params["charset"], `'" `)); charset {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return body
	case "iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "latin-1", "l1": // in HTML it is windows-1252
		e = charmap.ISO8859_1
	default:
		var err error
		if e, err = htmlindex.Get(charset); err != nil {
			return body
		}
	}
	// utf-16 without a byte order mark is little-endian, as in PCP's agent on most processors.
	return transform.NewReader(body, unicode.BOMOverride(e.NewDecoder()))
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
