package pmcd

import (
	"context"
	_ "embed"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// helpFile has the help texts in the format of newhelp(1), metrics by name and
// instance domains by number, as if our domain were 2.
//
//go:embed help.txt
var helpFile string

type helpText struct{ oneline, full string }

// parseHelp returns the texts of a help file by name, and those of the PDU
// counts. Each starts with a line "@ NAME ONELINE".
func parseHelp(file string) map[string]helpText {
	help := make(map[string]helpText)
	_, file, _ = strings.Cut(file, "\n@ ") // what is before is comment
	for entry := range strings.SplitSeq(file, "\n@ ") {
		head, full, _ := strings.Cut(entry, "\n")
		name, oneline, _ := strings.Cut(head, " ")
		help[name] = helpText{oneline: oneline, full: strings.TrimSpace(full)}
	}
	addPDUHelp(help)
	return help
}

// Text implements [agents.Texter].
func (a *Agent) Text(_ context.Context, id pdu.PMID, oneline bool) (string, error) {
	m := a.metric(id)
	if m == nil {
		return "", pdu.ErrnoText
	}
	return a.text(m.name, oneline)
}

// InDomText implements [agents.Texter].
func (a *Agent) InDomText(_ context.Context, indom pdu.InDom, oneline bool) (string, error) {
	if indom.Domain() != a.domain {
		return "", pdu.ErrnoText
	}
	return a.text(pdu.NewInDom(2, indom.Serial()).String(), oneline)
}

func (a *Agent) text(name string, oneline bool) (string, error) {
	text, ok := a.help[name]
	switch {
	case !ok:
		return "", pdu.ErrnoText
	case oneline:
		return text.oneline, nil
	}
	return text.full, nil
}
