package openmetrics

import (
	"fmt"
	"os"

	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/pmcdconf"
)

// checkTrust returns an error if this process is root's (-u root), and another user can change the script
// that it would run, or the source by which it would read a file. It is the check that pmcd makes
// before it starts an agent as root.
//
// C differs: it runs all scripts.
func (s *source) checkTrust() error {
	if os.Geteuid() != 0 {
		return nil
	}
	return s.untrusted()
}

func (s *source) untrusted() error {
	var err error
	switch {
	case s.script:
		err = roothelper.CheckAgent(&pmcdconf.Agent{Kind: pmcdconf.Pipe, Argv: []string{s.path}})
	case s.file != nil && s.file.url.Scheme == "file":
		err = roothelper.CheckFile(s.path)
	}
	if err != nil {
		return fmt.Errorf("not read as root: %w", err)
	}
	return nil
}
