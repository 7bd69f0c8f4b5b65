package tlsconf_test

import (
	"fmt"

	"github.com/gopcp/pmcd/pmcdconf/tlsconf"
)

func ExampleParse() {
	conf, warnings := tlsconf.Parse("tls.conf", []byte("tls-cert-file = /etc/pcp/tls/pcp.crt\ntls-key = /etc/pcp/tls/pcp.key\n"))
	fmt.Println(conf.CertFile.Text, "at", conf.CertFile.Pos)
	fmt.Println(conf.KeyFile.Text, "at", conf.KeyFile.Pos)
	for _, w := range warnings {
		fmt.Println(w)
	}
	// Output:
	// /etc/pcp/tls/pcp.crt at tls.conf:1
	// /etc/pcp/tls/pcp.key at tls.conf:2
	// tls.conf:2: "tls-key" is taken for tls-key-file; write the whole name
}
