package pmda

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A HelpText is one entry of a help file.
type HelpText struct {
	OneLine string // short text, one line without a newline
	Text    string // full text, lines separated by newlines
}

// ParseHelp parses help texts in the format of newhelp(1). An entry starts with a
// line
//
//	@ NAME ONELINE
//
// The following lines up to the next such line are the full text. Lines that start
// with # are comments. NAME is the name of a metric, the number D.C.I of a metric
// or the number D.S of an instance domain. D is ignored and may be a symbol. The
// keys of the map are names, and numbers without D: "C.I" or "S".
//
// The error lists all problems. The entries without problems are returned in any
// case. C PCP differs: newhelp(1) splits lines over 127 characters.
func ParseHelp(text string) (map[string]HelpText, error) {
	text = strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\r")
	help := make(map[string]HelpText, 1+strings.Count(text, "\n@"))
	var errs []error
	var name string
	var entry HelpText
	// The full text is entry.Text and text[begin:end]. A text without comments is not
	// copied: those of a program are in its file, and not in its heap.
	begin, end := 0, 0
	finish := func() {
		if name != "" {
			entry.Text = strings.TrimRight(entry.Text+text[begin:end], "\n")
			help[name] = entry
		}
		name, entry, begin, end = "", HelpText{}, 0, 0
	}
	n, offset := 0, 0
	for line := range strings.Lines(text) {
		n++
		from := offset
		offset += len(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, "@"):
			if from != end {
				entry.Text += text[begin:end]
				begin = from
			}
			end = offset
		default:
			finish()
			given, oneLine := helpHead(line)
			key := helpKey(given)
			_, twice := help[key]
			switch {
			case key == "":
				errs = append(errs, fmt.Errorf("line %d: no name after @", n))
			case twice:
				errs = append(errs, fmt.Errorf("line %d: second entry for %s", n, given))
			default:
				name, entry.OneLine = key, oneLine
			}
		}
	}
	finish()
	return help, errors.Join(errs...)
}

// helpHead returns the NAME and the ONELINE of the first line of an entry.
func helpHead(line string) (name, oneLine string) {
	fields := strings.Trim(line[1:], " \t\n")
	i := strings.IndexAny(fields, " \t")
	if i < 0 {
		i = len(fields)
	}
	return fields[:i], strings.TrimSpace(fields[i:])
}

// helpKey returns the key for the NAME of an entry: NAME itself, or the number
// without its domain.
func helpKey(name string) string {
	_, rest, _ := strings.Cut(name, ".")
	if rest == "" || strings.Trim(rest, "0123456789.") != "" {
		return name
	}
	return rest
}

// Text implements [agents.Texter].
func (a *agent) Text(ctx context.Context, o agents.Origin, id pdu.PMID, oneline bool) (string, error) {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return "", err
	}
	defer a.end(r)
	a.refreshNames(ctx)
	m := a.metrics[id]
	if m == nil {
		return "", pdu.ErrnoText
	}
	own := HelpText{m.OneLine, m.Metric.Text}
	return a.text(oneline, own, m.Name, fmt.Sprintf("%d.%d", m.Cluster, m.Item))
}

// InDomText implements [agents.Texter].
func (a *agent) InDomText(ctx context.Context, o agents.Origin, indom pdu.InDom, oneline bool) (string, error) {
	r, err := a.begin(ctx, o, nil)
	if err != nil {
		return "", err
	}
	defer a.end(r)
	d := a.indoms[indom]
	if d == nil {
		return "", pdu.ErrnoText
	}
	return a.text(oneline, HelpText{d.OneLine, d.Text}, fmt.Sprint(d.Serial))
}

// text returns the text in own, which is from the tables, or else the text in the
// help file under one of keys.
func (a *agent) text(oneline bool, own HelpText, keys ...string) (string, error) {
	for _, key := range keys {
		h := a.help[key]
		if own.OneLine == "" {
			own.OneLine = h.OneLine
		}
		if own.Text == "" {
			own.Text = h.Text
		}
	}
	text := own.Text
	if oneline {
		text = own.OneLine
	}
	if text == "" {
		return "", pdu.ErrnoText
	}
	return text, nil
}
