package tlspolicy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A cipher is a suite of TLS 1.2 that package tls uses unless it is told otherwise. It has
// none with RSA key exchange, DHE, Camellia, ARIA or CCM, nor CBC with SHA-2.
type cipher struct {
	id    uint16
	name  string   // OpenSSL's
	words []string // of ciphers(1ssl), besides those in everyCipher
}

var everyCipher = strings.Fields("ALL HIGH ECDH ECDHE EECDH kECDHE kEECDH")

var ciphers = func() (list []cipher) {
	add := func(id uint16, name, words string) { list = append(list, cipher{id, name, strings.Fields(words)}) }
	const rsa, ecdsa = "aRSA ", "aECDSA ECDSA "
	const gcm, cbc = "TLSv1.2 AESGCM AES FIPS ", "TLSv1.0 TLSv1 CBC AES SHA SHA1 FIPS "
	add(tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384", ecdsa+gcm+"AES256")
	add(tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384", rsa+gcm+"AES256")
	add(tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305", ecdsa+"TLSv1.2 CHACHA20")
	add(tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305", rsa+"TLSv1.2 CHACHA20")
	add(tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256", ecdsa+gcm+"AES128")
	add(tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256", rsa+gcm+"AES128")
	add(tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, "ECDHE-ECDSA-AES256-SHA", ecdsa+cbc+"AES256")
	add(tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, "ECDHE-RSA-AES256-SHA", rsa+cbc+"AES256")
	add(tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, "ECDHE-ECDSA-AES128-SHA", ecdsa+cbc+"AES128")
	add(tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, "ECDHE-RSA-AES128-SHA", rsa+cbc+"AES128")
	return list
}()

// matches reports whether all words stand for c.
func (c *cipher) matches(words []string) bool {
	for _, w := range words {
		if w != c.name && !slices.Contains(everyCipher, w) && !slices.Contains(c.words, w) {
			return false
		}
	}
	return true
}

// ciphers returns the suites of tls-ciphers, or nil for package tls's choice.
func (l *loader) ciphers() []uint16 {
	v := l.conf.Ciphers
	if !v.IsSet() {
		return nil
	}
	list, unused := parseCiphers(v.Text)
	if list == nil {
		l.fail(v, "Cannot set the cipher list from", errors.New("it has no cipher that pmcd has; openssl ciphers -v ECDHE lists most"))
		return nil
	}
	if unused != nil {
		l.warn(v, fmt.Errorf("ignored in tls-ciphers, because it stands for no cipher that pmcd has: %s", strings.Join(unused, ", ")))
	}
	return list
}

// parseCiphers evaluates a cipher list as ciphers(1ssl) describes it. The order of the
// result has no meaning: the client's order counts. The unused parts are those that should
// add ciphers or set a level, and do not.
func parseCiphers(text string) (list []uint16, unused []string) {
	const (
		off = iota
		on
		never
	)
	state := make([]int, len(ciphers))
	if rest, ok := strings.CutPrefix(text, "DEFAULT"); ok {
		text = rest
		for i := range state {
			state[i] = on
		}
	}
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(":,; ", r) }) {
		op, expr := byte(0), part // no operator adds ciphers
		if strings.IndexByte("!-+@", part[0]) >= 0 {
			op, expr = part[0], part[1:]
		}
		words, added := strings.Split(expr, "+"), false
		for i := range ciphers {
			switch {
			case !ciphers[i].matches(words):
			case op == 0:
				added = true
				if state[i] == off {
					state[i] = on
				}
			case op == '-' && state[i] == on:
				state[i] = off
			case op == '!':
				state[i] = never
			}
		}
		if op == 0 && !added || op == '@' && part != "@STRENGTH" {
			unused = append(unused, part)
		}
	}
	for i, c := range ciphers {
		if state[i] == on {
			list = append(list, c.id)
		}
	}
	return list, unused
}

// A suite13 is a suite of TLS 1.3.
type suite13 struct {
	name string
	used bool // package tls has it, and then always uses it
}

var suites13 = []suite13{
	{"TLS_AES_128_GCM_SHA256", true},
	{"TLS_AES_256_GCM_SHA384", true},
	{"TLS_CHACHA20_POLY1305_SHA256", true},
	{"TLS_AES_128_CCM_SHA256", false},
	{"TLS_AES_128_CCM_8_SHA256", false},
}

// cipherSuites checks tls-ciphersuites, which has no effect.
func (l *loader) cipherSuites() {
	v := l.conf.CipherSuites
	if !v.IsSet() {
		return
	}
	unknown := strings.Split(v.Text, ":")
	var extra []string
	known := false
	for _, s := range suites13 {
		n := len(unknown)
		unknown = slices.DeleteFunc(unknown, func(name string) bool { return name == s.name })
		if len(unknown) < n {
			known = true
		} else if s.used {
			extra = append(extra, s.name)
		}
	}
	if !known {
		l.fail(v, "Cannot set the cipher suites from", errors.New("it has no suite of TLS 1.3, as in TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384"))
		return
	}
	if len(unknown) > 0 {
		l.warn(v, fmt.Errorf("ignored in tls-ciphersuites, because it is no suite of TLS 1.3: %s", strings.Join(unknown, ", ")))
	}
	if extra != nil {
		l.warn(v, fmt.Errorf("pmcd cannot choose the suites of TLS 1.3, and also accepts %s", strings.Join(extra, " and ")))
	}
}
