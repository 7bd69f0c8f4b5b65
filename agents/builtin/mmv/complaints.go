package mmv

import (
	"log/slog"
	"time"

	"github.com/gopcp/pmcd/internal/logtext"
)

// Complaints log each message about a file once.
//
// A user who may write to the directory can make any number of files, so the number of lines
// a minute and the number of remembered messages are limited.
type complaints struct {
	log    *slog.Logger
	agent  string
	domain int

	said   map[string]bool
	minute time.Time // when the present minute has begun
	lines  int       // in it
	budget time.Time // when overBudget has logged
}

const (
	maxSaid  = 4 * maxFiles
	maxLines = 100 // in a minute
)

// report logs err. kind identifies the message among those about a path.
func (c *complaints) report(path, kind string, err error) {
	key := path + "\x00" + kind
	if kind == "file" || kind == "open" {
		key += err.Error()
	}
	if c.said[key] {
		return
	}
	if now := time.Now(); now.Sub(c.minute) >= time.Minute {
		c.minute, c.lines = now, 0
	}
	if c.lines++; c.lines > maxLines {
		if c.lines == maxLines+1 {
			c.log.Warn("{agent}: {path}: further messages about files are left out for a minute", "agent", c.agent, "domain", c.domain, "path", path)
		}
		return
	}
	if len(c.said) >= maxSaid || c.said == nil {
		c.said = make(map[string]bool)
	}
	c.said[key] = true
	c.log.Warn("{agent}: {path}: {error}", "agent", c.agent, "domain", c.domain, "path", path, "error", err, logtext.Event("mmv_file"))
}

// overBudget logs at most once an hour that files are not read again.
func (c *complaints) overBudget(dir string) {
	if now := time.Now(); now.Sub(c.budget) > time.Hour {
		c.budget = now
		c.log.Warn("{agent}: {path}: its files change so often that changes are noticed late", "agent", c.agent, "domain", c.domain, "path", dir)
	}
}

func (c *complaints) reloaded(dir string, files, metrics int) {
	c.log.Info("{agent}: {path}: {files} files, {metrics} metrics", "agent", c.agent, "domain", c.domain, "path", dir, "files", files, "metrics", metrics)
}
