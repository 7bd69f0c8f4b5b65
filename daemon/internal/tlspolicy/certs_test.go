package tlspolicy

import (
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/pmcdconf/tlsconf"
)

// rsaKey returns the RSA key of these bits. All tests share it, because making one takes
// long.
func rsaKey(t testing.TB, bits int) *rsa.PrivateKey {
	t.Helper()
	rsaKeys.Lock()
	defer rsaKeys.Unlock()
	if rsaKeys.of[bits] == nil {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		rsaKeys.of[bits] = key
	}
	return rsaKeys.of[bits]
}

var rsaKeys = struct {
	sync.Mutex
	of map[int]*rsa.PrivateKey
}{of: make(map[int]*rsa.PrivateKey)}

// conf parses a tls.conf in which @ stands for the directory.
func conf(t testing.TB, dir, text string) *tlsconf.Conf {
	t.Helper()
	c, warnings := tlsconf.Parse("tls.conf", []byte(strings.ReplaceAll(text, "@", dir)))
	if len(warnings) > 0 {
		t.Fatal(warnings)
	}
	return c
}
