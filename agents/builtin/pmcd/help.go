package pmcd

import (
	"context"
	_ "embed"
	"strconv"
	"sync"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// helpFile has the help texts in the format of newhelp(1): metrics by name and
// instance domains by number.
//
//go:embed help.txt
var helpFile string

// help returns the texts of the help file, as pmda.ParseHelp does, and those of
// the PDU counts. It parses the file at the first request for a text, which most
// daemons never get.
var help = sync.OnceValue(func() map[string]pmda.HelpText {
	help, err := pmda.ParseHelp(helpFile)
	if err != nil {
		panic(err) // the file is part of the program
	}
	addPDUHelp(help)
	return help
})

// Text implements [agents.Texter].
func (a *Agent) Text(_ context.Context, _ agents.Origin, id pdu.PMID, oneline bool) (string, error) {
	m := a.metric(id)
	if m == nil {
		return "", pdu.ErrnoText
	}
	return helpText(m.name, oneline)
}

// InDomText implements [agents.Texter].
func (a *Agent) InDomText(_ context.Context, _ agents.Origin, indom pdu.InDom, oneline bool) (string, error) {
	if indom.Domain() != a.domain {
		return "", pdu.ErrnoText
	}
	return helpText(strconv.Itoa(indom.Serial()), oneline)
}

func helpText(name string, oneline bool) (string, error) {
	text, ok := help()[name]
	switch {
	case !ok:
		return "", pdu.ErrnoText
	case oneline:
		return text.OneLine, nil
	}
	return text.Text, nil
}
