package proc

import (
	"context"
	"errors"
	"os"
	"path"
	"strings"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// clientSettings are the values that a client has stored into
// proc.control.perclient.
type clientSettings struct {
	threads    bool
	hasThreads bool
	cgroup     string
}

// listSettings returns the settings that apply to a client's list of processes: its
// own, or else those of the agent.
func (h *host) listSettings(c *pmda.Client) (threads bool, cgroup string) {
	threads, cgroup = h.Threads, h.Cgroup
	if settings, ok := c.Data.(*clientSettings); ok {
		if settings.hasThreads {
			threads = settings.threads
		}
		if settings.cgroup != "" {
			cgroup = settings.cgroup
		}
	}
	return threads, cgroup
}

// clientSettingsOf returns the settings of a client. It is an error if pmcd knows
// neither user, group nor container of the client.
//
// C differs: it also limits the number of clients with settings.
func clientSettingsOf(c *pmda.Client) (*clientSettings, error) {
	known := c.Container() != ""
	for _, a := range []pdu.AttrCode{pdu.AttrUserID, pdu.AttrGroupID, pdu.AttrUserName} {
		_, ok := c.Attr(a)
		known = known || ok
	}
	if !known {
		return nil, pdu.ErrnoNoContext
	}
	settings, ok := c.Data.(*clientSettings)
	if !ok {
		settings = new(clientSettings)
		c.Data = settings
	}
	return settings, nil
}

// singleValue returns the only value of a store.
func singleValue(s *pmda.Stored) (v pmda.StoredValue, err error) {
	if len(s.Values) != 1 {
		return v, pdu.ErrnoInst
	}
	return s.Values[0], nil
}

// boolValue returns the only value of a store, which must be 0 or 1.
func boolValue(s *pmda.Stored) (bool, error) {
	v, err := singleValue(s)
	if err != nil {
		return false, err
	}
	n, err := v.AsUint32()
	if err == nil && n > 1 {
		err = pdu.ErrnoBadStore
	}
	return n == 1, err
}

// storeAllThreads stores the setting for all clients without one of their own. A rule of pmie
// (zeroconf.all_threads) stores it as PCP's user.
//
// C differs: any client whose user is known may store it, not only root and PCP's user.
func (h *host) storeAllThreads(_ context.Context, r *pmda.Request, s *pmda.Stored) error {
	uid, ok := r.Client().UID()
	if !ok || uid != 0 && uid != h.pcpUID() {
		return pdu.ErrnoPermission
	}
	on, err := boolValue(s)
	if err == nil {
		h.Threads = on
	}
	return err
}

// pcpUID returns the user id of PCP's user: that of pcp.conf, or else the user of this process.
// pmcd sets the variable if pcp.conf does not have it.
func (h *host) pcpUID() int {
	if uid, _, ok := lookupUser(os.Getenv("PCP_USER")); ok {
		return uid
	}
	return h.ownCreds.uid // the process has the client's user now
}

func (h *host) storeThreads(_ context.Context, r *pmda.Request, s *pmda.Stored) error {
	on, err := boolValue(s)
	if err != nil && !errors.Is(err, pdu.ErrnoBadStore) {
		return err
	}
	settings, e := clientSettingsOf(r.Client())
	if e != nil {
		return e
	}
	if err == nil {
		settings.threads, settings.hasThreads = on, true
	}
	return err
}

// maxCgroup is the length of the longest path that a client may store, in bytes
// (PATH_MAX, limits.h).
const maxCgroup = 4096

func (h *host) storeCgroups(_ context.Context, r *pmda.Request, s *pmda.Stored) error {
	v, err := singleValue(s)
	if err != nil {
		return err
	}
	dir, err := v.AsString()
	if err != nil {
		return err
	}
	settings, err := clientSettingsOf(r.Client())
	if err != nil {
		return err
	}
	if !strings.HasPrefix(dir, "/") || path.Clean(dir) != dir || len(dir) > maxCgroup {
		return pdu.ErrnoBadStore
	}
	settings.cgroup = dir
	return nil
}

func (h *host) controlMetrics() []pmda.Metric {
	of := func(f func(threads bool, cgroup string, v *pmda.Value)) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			threads, cgroup := h.listSettings(v.Request().Client())
			f(threads, cgroup, v)
			return nil
		}
	}
	bit := func(on bool) uint64 {
		if on {
			return 1
		}
		return 0
	}
	ms := table(pmda.Metric{}, []row{
		{10, 1, "proc.control.all.threads", u32, instant, none, pmda.FromUint(func() (uint64, bool) { return bit(h.Threads), true })},
		{10, 2, "proc.control.perclient.threads", u32, instant, none, of(func(threads bool, _ string, v *pmda.Value) { v.SetUint(bit(threads)) })},
		{10, 3, "proc.control.perclient.cgroups", str, instant, none, of(func(_ bool, cgroup string, v *pmda.Value) { v.SetString(cgroup) })},
	})
	ms[0].Store, ms[1].Store, ms[2].Store = h.storeAllThreads, h.storeThreads, h.storeCgroups
	return ms
}
