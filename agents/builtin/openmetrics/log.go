package openmetrics

import (
	"fmt"
	"strings"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// complainOnce logs a message about a file of the configuration.
func (a *agent) complainOnce(path, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(a.complain) < 1000 && !a.complain[path+text] {
		a.complain[path+text] = true
		a.log.Warn("{path} is ignored: {error}", "path", path, "error", text)
	}
}

// clip returns the beginning of the name of a metric, which is text of the page, for the log.
func clip(name string) string { return name[:min(len(name), 200)] }

// reportInterval is how often at most other errors of a source are logged: some have the numbers of
// ports in them.
const reportInterval = time.Minute

// report sets the status, and logs it if it is new.
func (s *source) report(p *page, err error) {
	kind := "URL"
	if s.script {
		kind = "script"
	}
	text := ""
	switch {
	case err != nil:
		text = fmt.Sprintf("failed to read %s %s: %v", kind, s.path, err)
	case p.bad > 0:
		text = fmt.Sprintf("%s %s: %d lines are left out: %v", kind, s.path, p.bad, p.badErr)
	case p.unnumbered > 0:
		text = fmt.Sprintf("%s %s: %d samples are left out: %v", kind, s.path, p.unnumbered, p.numberErr)
	}
	if s.saveErr != nil {
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("%s: %v", notSaved, s.saveErr)
	}
	if len(text) > maxStatus { // it has text of the page or the server
		text = text[:maxStatus]
	}
	text = pdu.EscapeControls(strings.ToValidUTF8(text, "\ufffd"), "") // one line
	s.stats.status = text
	if text == "" {
		s.stats.status = "success"
	}
	switch {
	case text == s.lastError:
	case text == "":
		s.log.Info("source {source} is read without errors again", "source", s.name)
	case s.lastError != "" && time.Since(s.reported) < reportInterval:
	default:
		s.reported = time.Now()
		s.log.Warn("source {source}: {error}", "source", s.name, "error", text)
	}
	s.lastError = text
}
