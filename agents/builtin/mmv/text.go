package mmv

import (
	"bytes"
	"context"
	"errors"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
)

var (
	errStringOffset = errors.New("no value of a string: its offset is not in the file")
	errTextOffset   = errors.New("no text: its offset is not in the file")
)

// Text implements [agents.Texter]. Texts are not kept in memory but read from the file.
func (a *agent) Text(ctx context.Context, _ agents.Origin, id pdu.PMID, oneline bool) (string, error) {
	if c := a.control(id); c != nil {
		if oneline {
			return c.oneline, nil
		}
		return c.text, nil
	}
	if _, err := a.find(ctx, id); err != nil {
		return "", err
	}
	f, m := a.metric(id)
	if m == nil {
		return "", pdu.ErrnoPMID
	}
	return a.text(f, m.short, m.help, oneline)
}

// InDomText implements [agents.Texter]. The text is that of the first file that has the instance
// domain and a text for it.
//
// C differs: 6.0.3 returns no texts of instance domains, and 7.2 compares numbers of two
// kinds and finds none.
func (a *agent) InDomText(ctx context.Context, _ agents.Origin, id pdu.InDom, oneline bool) (string, error) {
	if err := a.refresh(ctx, true); err != nil {
		return "", err
	}
	d := a.indoms[id.Serial()]
	if d == nil || id.Domain() != a.domain {
		return "", pdu.ErrnoInDom
	}
	for _, from := range d.from {
		if text, err := a.text(from.f, from.d.short, from.d.help, oneline); err == nil && text != "" {
			return text, nil
		}
	}
	return "", pdu.ErrnoText
}

// text reads the text of a metric or instance domain of f.
//
// C differs: for an offset that is not in the file, the error is PM_ERR_GENERIC. A one-line
// text may have several lines.
func (a *agent) text(f *file, short, help uint64, oneline bool) (string, error) {
	off := help
	if oneline {
		off = short
	}
	if off == 0 {
		return "", pdu.ErrnoText
	}
	if err := a.in.open(f.path); err != nil {
		return "", pdu.ErrnoAgain
	}
	defer a.in.close()
	b, err := a.in.at(&a.in.strings, int64(off), mmvformat.StringSize)
	switch {
	case a.changedFile(f):
		return "", pdu.ErrnoAgain
	case err != nil:
		a.log.report(f.path, "text", errTextOffset)
		return "", pdu.ErrnoText
	}
	b, _ = cutText(b)
	if oneline {
		b, _, _ = bytes.Cut(b, []byte("\n"))
	}
	return string(b), nil
}
