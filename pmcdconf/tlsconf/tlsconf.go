// Package tlsconf reads tls.conf, the configuration of TLS that pmcd, pmproxy and clients
// of PCP share. It does not read the files that tls.conf names.
//
// A line is KEY = VALUE or KEY : VALUE. White space around the words is free, a # begins a
// comment anywhere, and the last line with a key counts. The syntax has no quotes, and a
// value ends at the first white space. libpcp ignores without a message what it does not
// understand. This package warns of it.
//
// Package tlsconf serves the programs of this module, and may change in any release.
package tlsconf

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// DefaultPath is the path of tls.conf if PCP_TLSCONF_PATH is not set.
const DefaultPath = "/etc/pcp/tls.conf"

const (
	maxFile     = 1 << 20 // bytes
	maxPEM      = 4 << 20 // bytes; 20 times the authorities of a Linux distribution
	maxWarnings = 100
)

// A Value is the value of a key. The zero Value means that the file does not set the key.
type Value struct {
	Key  string // the whole name
	Text string // not empty
	Pos  pmcdconf.Pos
}

// IsSet reports whether the file sets the key.
func (v Value) IsSet() bool { return v.Text != "" }

// A Conf is the content of tls.conf. A server uses what is not for clients only.
type Conf struct {
	Path string // of the file

	CertFile       Value // tls-cert-file: PEM, the own certificate first, then those of its issuers
	KeyFile        Value // tls-key-file: PEM
	Ciphers        Value // tls-ciphers: for TLS 1.2, as in ciphers(1ssl)
	CipherSuites   Value // tls-ciphersuites: for TLS 1.3
	CAFile         Value // tls-ca-cert-file: PEM, certificates of authorities that are trusted
	CADir          Value // tls-ca-cert-dir: such certificates as files, see openssl-rehash(1ssl)
	ClientCertFile Value // tls-client-cert-file, for clients only
	ClientKeyFile  Value // tls-client-key-file, for clients only
	VerifyClients  Value // tls-verify-clients: makes clients verify the server; nothing in pmcd
}

// fields returns the keys and their positions in c. The first key that begins with a word is
// the one that the word stands for.
func (c *Conf) fields() []field {
	return []field{
		{"tls-cert-file", &c.CertFile},
		{"tls-key-file", &c.KeyFile},
		{"tls-ciphers", &c.Ciphers},
		{"tls-ciphersuites", &c.CipherSuites},
		{"tls-ca-cert-file", &c.CAFile},
		{"tls-ca-cert-dir", &c.CADir},
		{"tls-client-cert-file", &c.ClientCertFile},
		{"tls-client-key-file", &c.ClientKeyFile},
		{"tls-verify-clients", &c.VerifyClients},
	}
}

type field struct {
	key   string
	value *Value
}

// Load reads tls.conf. If there is no such file, the error is fs.ErrNotExist. Only a
// regular file is read, so that Load does not block; the null device is an empty file.
func Load(path string) (*Conf, pmcdconf.ErrorList, error) {
	text, err := regular.ReadFile(path, maxFile)
	if err != nil {
		return nil, nil, err
	}
	conf, warnings := Parse(path, text)
	return conf, warnings, nil
}

// Parse returns the content of a tls.conf, and warnings about lines that do not count as
// they are written. The path is for positions.
func Parse(path string, text []byte) (*Conf, pmcdconf.ErrorList) {
	p := &parser{path: path, conf: &Conf{Path: path}}
	p.fields = p.conf.fields()
	for line := range bytes.Lines(text) {
		p.line++
		p.parseLine(line)
	}
	return p.conf, p.warnings
}

type parser struct {
	path     string
	line     int
	conf     *Conf
	fields   []field
	warnings pmcdconf.ErrorList
}

// warn adds a warning about the current line.
func (p *parser) warn(format string, args ...any) {
	if len(p.warnings) > maxWarnings {
		return
	}
	w := &pmcdconf.Error{Pos: pmcdconf.Pos{File: p.path, Line: p.line}, Warning: true, Err: fmt.Errorf(format, args...)}
	if len(p.warnings) == maxWarnings {
		w.Pos.Line, w.Err = 0, errors.New("too many mistakes, the others are not shown")
	}
	p.warnings = append(p.warnings, w)
}

const (
	space      = " \t\n\v\f\r"
	separators = "=:"
)

// parseLine parses a line, which ends with a newline unless it is the last one.
func (p *parser) parseLine(line []byte) {
	text := strings.TrimLeft(string(line), space)
	before, _, comment := strings.Cut(text, "#")
	if before == "" {
		return
	}
	if strings.IndexByte(before, 0) >= 0 {
		p.warn("the line has a NUL byte and is ignored")
		return
	}
	i := strings.IndexAny(before, separators)
	if i < 0 {
		p.warn("%s has neither = nor : after it; the line is ignored", quote(before))
		return
	}
	key, extra, _ := cutSpace(before[:i])
	value, rest, ended := cutSpace(strings.TrimLeft(before[i+1:], space))
	f := p.find(key)
	switch {
	case f == nil:
		p.warn("unknown key %s; the line is ignored", quote(key))
		return
	case value == "":
		p.warn("%s has no value; the line is ignored", f.key)
		return
	}
	if key != f.key {
		p.warn("%s is taken for %s; write the whole name", quote(key), f.key)
	}
	if extra != "" {
		p.warn("%s between %s and %q is ignored", quote(extra), f.key, before[i])
	}
	p.checkValue(f.key, value, rest, comment && !ended)
	if !ended && !comment {
		p.warn("the last line has no newline at its end; PCP's programs ignore %s", f.key)
	}
	if f.value.IsSet() {
		p.warn("%s replaces the value of line %d", f.key, f.value.Pos.Line)
	}
	*f.value = Value{Key: f.key, Text: value, Pos: pmcdconf.Pos{File: p.path, Line: p.line}}
}

// checkValue warns of a value that is probably not the one that was meant. The rest follows
// the value and white space; cut means that a comment follows the value.
func (p *parser) checkValue(key, value, rest string, cut bool) {
	if strings.Contains(separators, value[:1]) {
		p.warn("the value of %s begins with %q: it is %s", key, value[0], quote(value))
	}
	if strings.ContainsAny(value, `"'`) {
		p.warn("quotes are part of the value of %s, which is %s", key, quote(value))
	}
	switch {
	case rest != "":
		p.warn("the value of %s ends at the first blank: it is %s, and %s is ignored", key, quote(value), quote(rest))
	case cut:
		p.warn("the value of %s ends at the #: it is %s", key, quote(value))
	}
}

// find returns the field that key stands for, or nil if there is none.
func (p *parser) find(key string) *field {
	for i := range p.fields {
		if strings.HasPrefix(p.fields[i].key, key) {
			return &p.fields[i]
		}
	}
	return nil
}

// cutSpace cuts s at the first white space. It returns the text before it, the text after
// it without white space around, and whether there was any.
func cutSpace(s string) (word, rest string, ok bool) {
	i := strings.IndexAny(s, space)
	if i < 0 {
		return s, "", false
	}
	return s[:i], strings.Trim(s[i:], space), true
}

// quote returns s for a message.
func quote(s string) string {
	const most = 100
	s = strings.Trim(s, space)
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

// ReadFile reads a file that tls.conf names. Like Load, it reads only a regular file.
func ReadFile(path string) ([]byte, error) { return regular.ReadFile(path, maxPEM) }
