package pmcd

import (
	"context"
	"strings"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A storeFunc stores the values of a set, of which there may be none.
type storeFunc func(a *Agent, c *ClientInfo, vs *pdu.ValueSet) error

const (
	// MaxTraceBufs is the largest value of pmcd.control.tracebufs.
	//
	// C pmcd differs: it has no limit.
	MaxTraceBufs = 1 << 16

	// maxWhoami is the length to which pmcd.client.whoami is cut, in bytes, because
	// the value is sent to other clients.
	//
	// C pmcd differs: it keeps the whole value.
	maxWhoami = 4096

	// maxContainer is the length of the longest container name, in bytes, and containerChars
	// are the characters of names.
	maxContainer   = 255
	containerChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_"
)

// Store implements [agents.Storer]. It stores the sets in order and stops at the
// first error.
//
// Only root may store settings of pmcd, and only if pmcd knows that the client's user
// is root. Any client may store the metrics about itself.
func (a *Agent) Store(ctx context.Context, o agents.Origin, r *pdu.Result) error {
	a.storing.Lock() // setTrace, for one, is two steps
	defer a.storing.Unlock()
	c, ok := a.host.Client(o.Client)
	if !ok {
		return pdu.ErrnoPermission
	}
	for i := range r.Sets {
		if err := ctx.Err(); err != nil {
			return err
		}
		vs := &r.Sets[i]
		if needsRoot(vs.PMID) && c.UID != 0 {
			return pdu.ErrnoPermission
		}
		m := a.metric(vs.PMID)
		if m == nil || m.store == nil {
			return pdu.ErrnoPMID
		}
		if err := m.store(a, &c, vs); err != nil {
			return err
		}
	}
	return nil
}

func needsRoot(id pdu.PMID) bool {
	switch id.Cluster() {
	case 0:
		return id.Item() != itemSeqnum
	case clusterAgents:
		return id.Item() == itemFenced
	}
	return false
}

// storeInt returns the storeFunc of a metric of a 32-bit type without instances. It
// stores the first value, whatever its instance.
func storeInt(set func(a *Agent, n int32) error) storeFunc {
	return func(a *Agent, _ *ClientInfo, vs *pdu.ValueSet) error {
		if len(vs.Values) == 0 {
			return nil
		}
		n, err := intValue(vs, 0)
		if err != nil {
			return err
		}
		return set(a, n)
	}
}

// storeText is like storeInt for a metric of type STRING.
func storeText(set func(a *Agent, s string) error) storeFunc {
	return func(a *Agent, _ *ClientInfo, vs *pdu.ValueSet) error {
		if len(vs.Values) == 0 {
			return nil
		}
		s, err := textValue(vs, 0)
		if err != nil {
			return err
		}
		return set(a, s)
	}
}

func intValue(vs *pdu.ValueSet, i int) (int32, error) {
	if vs.Format != pdu.FormatInsitu {
		return 0, pdu.ErrnoConv
	}
	return int32(vs.Values[i].Word), nil
}

// textValue returns a string value, up to its first NUL: some clients send the rest
// of their buffer after it.
func textValue(vs *pdu.ValueSet, i int) (string, error) {
	v := &vs.Values[i]
	if vs.Format == pdu.FormatInsitu || v.Type != pdu.MetricString {
		return "", pdu.ErrnoConv
	}
	return cString(v.Block), nil
}

func setDebug(a *Agent, s string) error { return a.host.SetDebug(s) }

func setTimeout(a *Agent, n int32) error {
	if n < 0 {
		return pdu.ErrnoSign
	}
	a.host.SetTimeout(time.Duration(n) * time.Second)
	return nil
}

func setCredsTimeout(a *Agent, n int32) error {
	switch {
	case n < 0:
		return pdu.ErrnoSign
	case n == 0:
		return pdu.ErrnoConv
	}
	a.host.SetCredsTimeout(time.Duration(n) * time.Second)
	return nil
}

func storeTraceBit(t Trace) storeFunc {
	return storeInt(func(a *Agent, n int32) error {
		var s Status
		a.host.Status(&s)
		switch n {
		case 0:
			a.host.SetTrace(s.Trace &^ t)
		case 1:
			a.host.SetTrace(s.Trace | t)
		default:
			return pdu.ErrnoBadStore
		}
		return nil
	})
}

func setTraceBufs(a *Agent, n int32) error {
	switch {
	case n < 0:
		return pdu.ErrnoSign
	case n > MaxTraceBufs:
		return pdu.ErrnoBadStore
	}
	a.host.SetTraceBufs(int(n))
	return nil
}

// The following accept any value.

func dumpTrace(a *Agent, _ int32) error   { a.host.DumpTrace(); return nil }
func dumpClients(a *Agent, _ int32) error { a.host.DumpClients(); return nil }
func sighup(a *Agent, _ int32) error      { a.host.Sighup(); return nil }
func bumpSeqnum(a *Agent, _ int32) error  { a.host.BumpSeqnum(); return nil }

func storeRegisters(a *Agent, _ *ClientInfo, vs *pdu.ValueSet) error {
	for i, v := range vs.Values {
		n, err := intValue(vs, i)
		if err != nil {
			return err
		}
		if v.Inst < 0 || v.Inst >= numRegisters {
			return pdu.ErrnoInst
		}
		a.registers[v.Inst].Store(n)
	}
	return nil
}

// storeFenced fences agents or removes fences. A value without an instance is for all
// agents. The pmcd agent itself is never fenced: no store could remove its fence.
func storeFenced(a *Agent, _ *ClientInfo, vs *pdu.ValueSet) error {
	for i, v := range vs.Values {
		n, err := intValue(vs, i)
		if err != nil {
			return err
		}
		if n != 0 && n != 1 {
			return pdu.ErrnoBadStore
		}
		known := v.Inst == pdu.NoInst
		for _, agent := range a.host.Agents(nil) {
			if v.Inst != pdu.NoInst && v.Inst != int32(agent.Domain) {
				continue
			}
			known = true
			if agent.Domain != a.domain {
				a.host.SetFenced(agent.Domain, n == 1)
			}
		}
		if !known {
			return pdu.ErrnoInst
		}
	}
	return nil
}

// ownValue returns the only value of a set that a client stores about itself. The
// instance is ignored, because the client need not know its own.
func ownValue(vs *pdu.ValueSet) (string, error) {
	if len(vs.Values) != 1 {
		return "", pdu.ErrnoInst
	}
	return textValue(vs, 0)
}

func storeWhoami(a *Agent, c *ClientInfo, vs *pdu.ValueSet) error {
	s, err := ownValue(vs)
	if err != nil {
		return err
	}
	a.host.SetWhoami(c.Client, strings.Clone(s[:min(len(s), maxWhoami)])) // without the rest of s in memory
	return nil
}

func storeContainer(a *Agent, c *ClientInfo, vs *pdu.ValueSet) error {
	s, err := ownValue(vs)
	if err != nil {
		return err
	}
	if len(s) > maxContainer || strings.Trim(s, containerChars) != "" {
		return pdu.ErrnoEINVAL
	}
	a.host.SetContainer(c.Client, s)
	return nil
}
