package session

import (
	"context"
	"slices"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/logtext"
	"github.com/gopcp/pmcd/daemon/internal/conn"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pdu"
)

// An Info is what can be seen of a client.
type Info struct {
	Number    int32 // as agents know it
	Seq       uint32
	FD        int
	Version   int32  // of the protocol; 0 if the client has not stated it yet
	Address   string // as log lines have it
	Unix      bool   // connected to the Unix socket
	Since     time.Time
	UID       int64 // -1 if it is not known
	Whoami    string
	Container string
	Denied    access.Op // operations
}

// Clients reports on all clients, the oldest first.
func (s *Server) Clients() []Info {
	list := s.clients.all()
	all := make([]Info, len(list))
	for i, c := range list {
		all[i] = c.info()
	}
	return all
}

// SomeClients calls f for each client whose sequence number p selects, in ascending order.
// It calls agents.Checkpoint, and returns its error.
func (s *Server) SomeClients(ctx context.Context, p pdu.InDomProfile, f func(Info)) error {
	all := p.All()
	for i, c := range s.clients.some(p) {
		if i%64 == 63 {
			if err := agents.Checkpoint(ctx); err != nil {
				return err
			}
		}
		if all || p.Includes(int32(c.id.seq)) {
			f(c.info())
		}
	}
	return nil
}

// ClientSeqs returns the sequence numbers of all clients, in ascending order.
func (s *Server) ClientSeqs() []int32 {
	list := s.clients.all()
	seqs := make([]int32, len(list))
	for i, c := range list {
		seqs[i] = int32(c.id.seq)
	}
	return seqs
}

// Client reports on the client with a number; false if there is none.
func (s *Server) Client(num int32) (Info, bool) {
	c := s.clients.byNumber(num)
	if c == nil {
		return Info{}, false
	}
	return c.info(), true
}

// NumClients returns how many clients are connected.
func (s *Server) NumClients() int { return s.clients.len() }

func (s *session) info() Info {
	info := Info{
		Number:    s.id.num,
		Seq:       s.id.seq,
		FD:        s.conn.FD(),
		Version:   s.id.version.Load(),
		Address:   s.id.addr,
		Unix:      s.id.peer.Family == access.Unix,
		Since:     s.id.since,
		UID:       -1,
		Container: s.container.current(),
		Denied:    s.rights.denied(),
	}
	if text := s.id.whoami.Load(); text != nil {
		info.Whoami = *text
	}
	if p := s.id.account(); p.HasUser {
		info.UID = int64(p.UID)
	}
	return info
}

// SetWhoami stores what a client says of itself (pmcd.client.whoami).
func (s *Server) SetWhoami(client int32, text string) {
	if c := s.clients.byNumber(client); c != nil {
		c.id.whoami.Store(&text)
	}
}

// SetContainer replaces the container of a client; "" is none
// (pmcd.client.container). The goroutine of the client's session calls it.
func (s *Server) SetContainer(client int32, name string) {
	if c := s.clients.byNumber(client); c != nil {
		c.container.set(name)
		c.broadcastAttrs()
	}
}

// LogClients logs the table of clients, under a title, in the order in which a
// reload decides about them.
func (s *Server) LogClients(title string) {
	list := s.Clients()
	slices.SortFunc(list, func(a, b Info) int { return int(a.Number) - int(b.Number) })
	rows := make([]diag.ClientRow, len(list))
	for i, c := range list {
		rows[i] = diag.ClientRow{FD: c.FD, Addr: c.Address, Version: c.Version}
		if c.Denied != 0 {
			rows[i].Denied = c.Denied.String()
		}
	}
	s.plain.Info(diag.ClientTable(title, rows), logtext.Event("client_table"))
}

// A MemoryInfo is what clients make pmcd keep of one kind.
type MemoryInfo struct {
	Used    int64 // bytes
	Limit   int64 // bytes
	Evicted int64 // clients that were disconnected to make room for others

	LastEvicted conn.Evicted
}

// Memory reports on what clients make pmcd keep, other than replies.
func (s *Server) Memory() (profiles, requests MemoryInfo) {
	return s.profiles.info(), s.requests.info()
}
