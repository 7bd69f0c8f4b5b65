package checkagents

import (
	"cmp"
	"io"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/message"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/table"
	"github.com/gopcp/pmcd/internal/transport"
)

// printJSON prints the results of trials as JSON.
func printJSON(w io.Writer, trials []*trial, trust *privsep.TrustCheck) error {
	type result struct {
		Name   string   `json:"name"`
		Domain int      `json:"domain"`
		Kind   string   `json:"kind"`
		Start  int64    `json:"start_us"` // 0 if it did not come to that
		Desc   int64    `json:"desc_us"`
		Fetch  int64    `json:"fetch_us"`
		OK     bool     `json:"ok"`
		Note   string   `json:"note,omitempty"`
		Error  string   `json:"error,omitempty"`
		Output []string `json:"output,omitempty"`
		RunsAs string   `json:"runs_as,omitempty"` // if not as root, and why
	}
	results := make([]result, len(trials))
	for i, t := range trials {
		results[i] = result{Name: t.spec.Name, Domain: t.spec.Domain, Kind: t.spec.Kind.String(), OK: t.err == nil, Note: t.note,
			Start: t.start.Microseconds(), Desc: t.desc.Microseconds(), Fetch: t.fetch.Microseconds()}
		if t.err != nil {
			results[i].Error, results[i].Output = transport.Reason(t.err), t.output
		}
		if t.untrusted != nil {
			results[i].RunsAs = trust.RunsAs(t.untrusted)
		}
	}
	enc := message.NewJSONEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(map[string]any{"agents": results})
}

// printTrials prints the results of trials for people.
func printTrials(w io.Writer, trials []*trial, trust *privsep.TrustCheck) error {
	took := func(d time.Duration) string {
		if d == 0 {
			return "-"
		}
		return message.Micros(max(d.Microseconds(), 1))
	}
	p := table.New(w)
	p.Line("AGENT\tDOMAIN\tKIND\tSTART\tDESC\tFETCH\tRESULT")
	for _, t := range trials {
		result := cmp.Or(t.note, "ok")
		if t.err != nil {
			result = "FAILED: " + transport.Reason(t.err)
		}
		p.Line("%s\t%d\t%s\t%s\t%s\t%s\t%s", t.spec.Name, t.spec.Domain, t.spec.Kind.String(),
			took(t.start), took(t.desc), took(t.fetch), result)
	}
	p.Flush()
	for _, t := range trials {
		if t.untrusted != nil {
			p.Line("")
			p.Line("%s %s", t.spec.Name, trust.RunsAs(t.untrusted))
			p.Line("    %s", trust.Remedy(t.untrusted))
		}
	}
	for _, t := range trials {
		if t.err == nil || len(t.output) == 0 {
			continue
		}
		p.Line("")
		p.Line("the last output of %s:", t.spec.Name)
		for _, line := range t.output {
			p.Line("    %s", line)
		}
	}
	return p.Flush()
}
