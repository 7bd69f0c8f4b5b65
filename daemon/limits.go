package daemon

import "time"

// A LimitStatus is a limit for all clients together, and its use.
type LimitStatus struct {
	Name         string // as in the section LIMITS of pmcd(1)
	Unit         string // "bytes", or "" for a number
	Used         int64
	Limit        int64  // 0 means no limit
	Disconnected int64  // clients, because of the limit
	Last         string // address of the last of these
	LastAt       time.Time
}

// Limits reports on the limits for clients. It is called while Run runs.
func (d *Daemon) Limits() []LimitStatus {
	profiles, requests := d.sessions.Memory()
	inProgress, most := d.sessions.InProgress()
	unanswered := d.sessions.Unanswered()
	list := []LimitStatus{
		{Name: "requests in progress", Used: int64(inProgress), Limit: int64(most)},
		{Name: "unanswered clients", Used: unanswered.Used, Limit: unanswered.Limit,
			Disconnected: unanswered.Evicted, Last: unanswered.LastEvicted.Client, LastAt: unanswered.LastEvicted.At},
		{Name: "profiles", Unit: "bytes", Used: profiles.Used, Limit: profiles.Limit,
			Disconnected: profiles.Evicted, Last: profiles.LastEvicted.Client, LastAt: profiles.LastEvicted.At},
		{Name: "incomplete requests", Unit: "bytes", Used: requests.Used, Limit: requests.Limit,
			Disconnected: requests.Evicted, Last: requests.LastEvicted.Client, LastAt: requests.LastEvicted.At},
	}
	a := d.acceptor.Load()
	if a == nil {
		return list
	}
	s := a.Stats()
	return append([]LimitStatus{
		{Name: "clients", Used: int64(s.Open), Limit: s.Most},
		{Name: "unread replies", Unit: "bytes", Used: s.Unread, Limit: s.UnreadLimit,
			Disconnected: s.Evicted, Last: s.LastEvicted.Client, LastAt: s.LastEvicted.At},
	}, list...)
}
