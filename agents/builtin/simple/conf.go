package simple

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// A field returns the value of an instance of simple.now at a time, in local time.
type field func(time.Time) int

var fields = map[string]field{
	"sec":  time.Time.Second,
	"min":  time.Time.Minute,
	"hour": time.Time.Hour,
}

// maxLine is the largest number of bytes that PCP's agent reads of the first line.
const maxLine = 255

// A conf is the file simple.conf, and the instances that it names.
type conf struct {
	path      string
	log       *slog.Logger
	instances *cache.Cache // data is a field
	mtime     time.Time    // of the file that was read; zero if it could not be read
	lastError string       // why it could not be read, to log each error once

	open func(path string) (*os.File, error) // regular.Open, which tests replace
}

func newConf(domain int, log *slog.Logger) *conf {
	dir, _ := pcpconf.Dir("PCP_PMDAS_DIR")
	return &conf{
		path:      filepath.Join(dir, "simple", "simple.conf"),
		log:       log.With("agent", "simple", "domain", domain),
		instances: cache.New(pdu.NewInDom(domain, 1), cache.Options{}),
		open:      regular.Open,
	}
}

// readIfChanged reads the file if its time is not that of the file that was read
// last.
func (c *conf) readIfChanged() {
	st, err := os.Stat(c.path)
	if err != nil {
		c.fail(err)
		return
	}
	if st.ModTime().Equal(c.mtime) {
		return
	}
	line, err := c.firstLine()
	if err != nil {
		c.fail(err) // the next request tries again
		return
	}
	c.lastError, c.mtime = "", st.ModTime()
	c.instances.HideAll()
	c.parse(line)
}

// fail hides all instances because the file cannot be read, and logs why.
func (c *conf) fail(err error) {
	if text := err.Error(); text != c.lastError {
		c.lastError = text
		c.log.Error("{agent}: simple.now has no instances: {error}", "error", text)
	}
	c.instances.HideAll()
	c.mtime = time.Time{}
}

// firstLine returns as much of the first line as PCP's agent reads.
func (c *conf) firstLine() (string, error) {
	f, err := c.open(c.path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxLine))
	if err != nil {
		return "", err
	}
	if len(b) == 0 {
		return "", fmt.Errorf("%s: no data", c.path)
	}
	line := string(b)
	if i := strings.IndexAny(line, "\n\x00"); i >= 0 {
		line = line[:i]
	}
	return line, nil
}

// parse adds the instances that the line names.
func (c *conf) parse(line string) {
	for _, name := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' }) {
		f, ok := fields[name]
		if !ok {
			c.log.Warn("{agent}: ignoring {name:q} in {path}", "name", name, "path", c.path)
			continue
		}
		if _, err := c.instances.Add(name, f); err != nil {
			c.log.Error("{agent}: instance {name}: {error}", "name", name, "error", err)
			return
		}
	}
	if active, _ := c.instances.Size(); active == 0 {
		c.log.Warn("{agent}: {path} names no instance of simple.now", "path", c.path)
	}
}
