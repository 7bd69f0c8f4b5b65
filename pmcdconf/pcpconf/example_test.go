package pcpconf_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// A variable of the environment takes precedence over the one of the file.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	env := map[string]string{"PCP_CONF": filepath.Join(dir, "pcp.conf"), "PCP_TMP_DIR": "/tmp"}
	text := "# directories of PCP\nPCP_RUN_DIR=/run/pcp\nPCP_TMP_DIR=/var/lib/pcp/tmp\n"
	if err := os.WriteFile(env["PCP_CONF"], []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}

	settings, err := pcpconf.Load(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
	fmt.Println(settings, err)
	// Output: [{PCP_RUN_DIR /run/pcp}] <nil>
}
