package clients

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/internal/logtext"
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
	Denied    string // operations; "" if none
}

// Infos reports on all clients, the oldest first.
func (l *List) Infos() []Info {
	list := l.All()
	all := make([]Info, len(list))
	for i, c := range list {
		all[i] = c.info()
	}
	return all
}

// Some calls f for each client whose sequence number p selects, in ascending order.
// It returns the error of ctx, when that has ended.
func (l *List) Some(ctx context.Context, p pdu.InDomProfile, f func(Info)) error {
	all := p.All()
	for i, c := range l.All() {
		if i%64 == 63 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if all || p.Includes(int32(c.Seq)) {
			f(c.info())
		}
	}
	return nil
}

// Seqs returns the sequence numbers of all clients, in ascending order.
func (l *List) Seqs() []int32 {
	list := l.All()
	seqs := make([]int32, len(list))
	for i, c := range list {
		seqs[i] = int32(c.Seq)
	}
	return seqs
}

// Info reports on the client with a number; false if there is none.
func (l *List) Info(num int32) (Info, bool) {
	c := l.Client(num)
	if c == nil {
		return Info{}, false
	}
	return c.info(), true
}

func (c *Client) info() Info {
	info := Info{
		Number:    c.Num,
		Seq:       c.Seq,
		FD:        c.Conn.FD(),
		Version:   c.Version.Load(),
		Address:   c.Addr,
		Unix:      c.Peer.Family == access.Unix,
		Since:     c.Since,
		UID:       -1,
		Container: c.Container.Name(),
	}
	if text := c.whoami.Load(); text != nil {
		info.Whoami = *text
	}
	if op := c.Denied(); op != 0 {
		info.Denied = op.String()
	}
	if p := c.Account(); p.HasUser {
		info.UID = int64(p.UID)
	}
	return info
}

// SetWhoami stores what a client says of itself (pmcd.client.whoami).
func (l *List) SetWhoami(client int32, text string) {
	if c := l.Client(client); c != nil {
		c.whoami.Store(&text)
	}
}

// Log logs the table of clients to log, under a title, in the order in which a
// reload decides about them.
func (l *List) Log(log *slog.Logger, title string) {
	list := l.Infos()
	slices.SortFunc(list, func(a, b Info) int { return int(a.Number) - int(b.Number) })
	rows := make([]diag.ClientRow, len(list))
	for i, c := range list {
		rows[i] = diag.ClientRow{FD: c.FD, Addr: c.Address, Version: c.Version, Denied: c.Denied}
	}
	log.Info(diag.ClientTable(title, rows), logtext.Event("client_table"))
}
