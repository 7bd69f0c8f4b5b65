package openmetrics

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gopcp/pmcd/pdu"
)

// A series is what a series of a page was found to be, so that its labels are not parsed in the
// next page. A metric of nil is left out by a filter, or has no number.
type series struct {
	m    *metric
	inst int32  // or pdu.NoInst
	key  string // the part of the sample that names the series
}

// A page is a page that is being read. It puts the values into the metrics of the source as they
// come; source.commit makes them valid.
type page struct {
	src     *source
	file    *urlFile // nil for a script
	block   block
	samples bool // the last line was a sample

	lines, count int
	parseTime    time.Duration
	unnumbered   int   // samples without a value because names have no number
	numberErr    error // why
	bad          int   // lines that are not understood
	badErr       error // the first one
}

// read reads the page. A line that is not understood costs that line only. An error means that there
// are no values.
//
// C differs: such a line ends the page.
func (p *page) read(r io.Reader) error {
	in := bufio.NewScanner(&limitedReader{r: r, left: p.src.maxPage})
	in.Buffer(nil, maxLine)
	long := false // the line is longer than the buffer, and what the buffer had of it is gone
	in.Split(func(b []byte, atEOF bool) (int, []byte, error) {
		n, line, err := splitLine(b, atEOF)
		if n == 0 && len(b) == maxLine {
			n, long = len(b), true
		}
		return n, line, err
	})
	for in.Scan() {
		line := in.Bytes()
		if long {
			p.lines++
			p.leftOut(errLineTooLong)
			long = false
			continue
		}
		if p.lines == 0 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // a byte order mark
		}
		start := time.Now()
		err := p.line(bytes.TrimSpace(line))
		p.parseTime += time.Since(start)
		if err != nil {
			return err
		}
	}
	if long { // to the end of the page
		p.lines++
		p.leftOut(errLineTooLong)
	}
	return in.Err()
}

// splitLine is a bufio.SplitFunc for lines that end with a newline, a carriage return or both, as in
// PCP's agent.
func splitLine(b []byte, atEOF bool) (advance int, line []byte, err error) {
	for i, c := range b { // not a search for each of the two: a page may have only one of them
		switch {
		case c == '\n':
			return i + 1, b[:i], nil
		case c != '\r':
		case i+1 < len(b) && b[i+1] == '\n':
			return i + 2, b[:i], nil
		case i+1 < len(b) || atEOF:
			return i + 1, b[:i], nil
		default: // a newline may follow
			return 0, nil, nil
		}
	}
	if atEOF && len(b) > 0 {
		return len(b), b, nil
	}
	return 0, nil, nil
}

// A limitedReader is an io.LimitedReader with an error of its own.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (l *limitedReader) Read(b []byte) (int, error) {
	n, err := l.r.Read(b)
	if l.left -= int64(n); l.left < 0 {
		return 0, errPageTooLong
	}
	return n, err
}

// line handles a line without blanks around it.
func (p *page) line(line []byte) error {
	p.lines++
	if len(line) == 0 {
		return nil
	}
	if !utf8.Valid(line) {
		line = []byte(string([]rune(string(line)))) // U+FFFD for each byte
	}
	if line[0] == '#' {
		p.comment(string(line))
		return nil
	}
	p.samples = true
	if p.count++; p.count > maxSeries {
		return errTooManySeries
	}
	key, value, err := splitSample(line)
	if err == nil {
		p.src.mu.Lock()
		err = p.sample(key, value)
		p.src.mu.Unlock()
	}
	if err != nil {
		p.leftOut(err)
	}
	return nil
}

// leftOut notes that the present line is not understood.
func (p *page) leftOut(err error) {
	if p.bad++; p.bad == 1 {
		p.badErr = fmt.Errorf("line %d: %w", p.lines, err)
	}
}

// comment handles a comment. The first one after samples begins a block: until then, HELP and TYPE
// are for all samples, whatever name they have, as in PCP's agent.
func (p *page) comment(line string) {
	if p.samples {
		p.block, p.samples = block{}, false
	}
	words := strings.Fields(line)
	if len(words) < 2 {
		return
	}
	text := ""
	if len(words) > 3 {
		text = strings.Join(words[3:], " ")
	}
	switch words[1] {
	case "HELP":
		p.block.help = text
	case "TYPE":
		p.block.typ = text
	case "PCP":
		p.block.pcp = words[1:]
	case "PCP5": // the PMID is left out
		p.block.pcp = words[1:min(3, len(words))]
		if len(words) > 4 {
			p.block.pcp = append(p.block.pcp[:2:2], words[4:]...)
		}
	}
}

// sample stores a value. The source is locked.
func (p *page) sample(key, value []byte) error {
	s := p.src
	s.seq++
	ser, ok := s.series[string(key)]
	if !ok {
		var err error
		if ser, err = p.find(string(key), value); err != nil {
			if _, ok := errors.AsType[*numberError](err); !ok {
				return err
			}
			p.unnumbered++
			p.numberErr = err
			return nil // not remembered: the reason may not be there in the next page
		}
		s.series[ser.key] = ser
		s.keys += len(ser.key)
	}
	if ser.m != nil {
		s.held += ser.m.set(max(0, int(ser.inst)), s.seq, ser.key, value)
	}
	return nil
}

// find returns the metric and the instance of a series, which it makes if they are new. Behind a line
// that is not understood, what is new needs a value of its type: lines of text, such as those of an
// HTML page, must not have names and numbers for ever.
func (p *page) find(key string, value []byte) (series, error) {
	s := p.src
	name, labels, err := parseSeries(key)
	if err != nil {
		return series{}, err
	}
	included, optional, naming := p.filterLabels(labels)
	m := s.metrics[name]
	if m == nil {
		if p.file.action(name, false) != "INCLUDE" {
			return series{key: key}, nil
		}
		if m, err = p.newMetric(name, included, optional, value); err != nil {
			return series{}, err
		}
	} else if p.bad > 0 && !m.accepts(value) {
		return series{}, errValue
	}
	if m.insts == nil {
		return series{m, pdu.NoInst, key}, nil
	}
	if len(included) == 0 {
		return series{}, fmt.Errorf("%s has no labels, and had some before", name)
	}
	inst, prefix := m.instName(naming)
	if !m.insts.prefix && prefix {
		m.insts.prefix = true
	}
	before := m.insts.bytes
	n, isNew, err := m.insts.number(inst, s.names < maxSavedNames && s.bytes < maxSavedBytes)
	if err != nil {
		return series{}, err
	}
	if isNew {
		s.names++
		s.bytes += m.insts.bytes - before
		s.dirty[m.insts] = true
	}
	return series{m, n, key}, nil
}

// filterLabels returns the labels that are included, those of them that are optional, and the
// others, which name instances.
func (p *page) filterLabels(labels []label) (included, optional, naming []label) {
	for _, l := range labels {
		switch p.file.action(l.name, true) {
		case "INCLUDE":
			naming = append(naming, l)
		case "OPTIONAL":
			optional = append(optional, l)
		default:
			continue
		}
		included = append(included, l)
	}
	return included, optional, naming
}

// newMetric makes a metric. Its name and number are not known to clients before commit.
func (p *page) newMetric(name string, included, optional []label, value []byte) (*metric, error) {
	s := p.src
	if !validName(name) {
		return nil, fmt.Errorf("%.80q: %w", name, errName)
	}
	meta := p.file.metadataOf(name)
	m, metricErr := newMetric(s.prefix, name, &p.block, meta, included)
	if p.bad > 0 && metricErr == nil {
		if err := checkName(m.name); err != nil {
			return nil, err
		}
		if !m.accepts(value) {
			return nil, errValue
		}
	}
	item, isNew, err := s.items.number(name, true)
	if err != nil {
		return nil, err
	}
	if isNew {
		s.dirty[s.items] = true
	}
	if metricErr != nil {
		return nil, metricErr
	}
	m.item, m.optional = int(item), optional
	if m.item < len(s.byItem) {
		m.old = s.byItem[m.item] // a page from another endpoint has declared it
	}
	switch {
	case len(included) == 0 || singular(&p.block, meta):
	case m.old != nil && m.old.insts != nil:
		m.insts = m.old.insts
	default:
		m.insts = newTable(s.dir, s.domain, instSerial(s.cluster, m.item), maxInstance)
		s.mu.Unlock() // while a file is read; no other goroutine changes the metrics
		m.insts.recheck(noLock{})
		s.mu.Lock()
		s.count(m.insts, 1)
	}
	if m.old != nil && m.old.named && m.old.same(m) {
		m.old.first, m.old.optional = m.first, m.optional
		s.metrics[name] = m.old
		return m.old, nil
	}
	s.metrics[name] = m
	s.pending = append(s.pending, m)
	return m, nil
}

// instSerial returns the serial number of the instance domain of a metric.
func instSerial(cluster, item int) int { return (maxSources + 1) + cluster*maxItems + item }
