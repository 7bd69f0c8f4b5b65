package pmda

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A HelpText is one entry of a help file.
type HelpText struct {
	OneLine string // without a newline
	Text    string // lines with newlines between them; "" if there is none
}

// ParseHelp reads help texts in the format of newhelp(1): an entry starts with
// a line
//
//	@ NAME TEXT
//
// and has all lines up to the next one; lines that start with # do not count.
// NAME is the name of a metric, its number D.C.I or, of an instance domain,
// D.S, where D is anything: a symbol or a number. The texts are returned by
// NAME, of numbers without D: "C.I", "S".
//
// The error, which names all mistakes, comes with what could be read. C
// differs: newhelp(1) splits lines over 127 characters.
func ParseHelp(text string) (map[string]HelpText, error) {
	help := make(map[string]HelpText)
	var errs []error
	var name string
	var entry HelpText
	finish := func() {
		if name != "" {
			entry.Text = strings.TrimRight(entry.Text, "\n")
			help[name] = entry
		}
		name, entry = "", HelpText{}
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, "@"):
			if name != "" {
				entry.Text += line + "\n"
			}
		default:
			finish()
			fields := strings.TrimLeft(line[1:], " \t")
			i := strings.IndexAny(fields, " \t")
			if i < 0 {
				i = len(fields)
			}
			key := helpKey(fields[:i])
			_, twice := help[key]
			switch {
			case key == "":
				errs = append(errs, fmt.Errorf("line %d: no name behind @", n))
			case twice:
				errs = append(errs, fmt.Errorf("line %d: %s is there twice", n, fields[:i]))
			default:
				name, entry.OneLine = key, strings.TrimSpace(fields[i:])
			}
		}
	}
	finish()
	return help, errors.Join(errs...)
}

// helpKey returns what an entry of a help file is for, without the domain of
// a number.
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

// text returns the text from the tables, else the one in the help file.
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
