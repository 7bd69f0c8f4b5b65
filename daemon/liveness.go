package daemon

import (
	"context"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// CheckLiveness returns nil when the loop of Run and the loop of the acceptor have made a
// pass, and a fetch of pmcd.numclients has succeeded. It is for a watchdog: if one of these
// hangs, CheckLiveness does not return, or returns an error when ctx ends. It does not wait
// for clients or for their calls.
func (d *Daemon) CheckLiveness(ctx context.Context) error {
	select {
	case d.probes <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := d.acceptor.Load().Probe(ctx); err != nil {
		return err
	}
	for _, a := range d.routes.Load().Agents() {
		spec, l := a.Spec(), a.Conn()
		if l == nil || spec.Kind != pmcdconf.DSO || spec.Entry != pmcdconf.PMCDEntry {
			continue
		}
		_, err := transport.Probe(l, transport.Call{Profile: transport.NewProfile(new(pdu.Profile))},
			&pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(a.Domain, 0, 3)}})
		return err
	}
	return nil
}
