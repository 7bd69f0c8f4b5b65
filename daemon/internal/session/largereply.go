package session

import "github.com/gopcp/pmcd/agents/fairqueue"

// The memory of large replies that are being made is limited (Server.large). A request of
// 8 KiB that repeats a PMID can have a reply as long as pmcd makes them, and many clients may
// ask at a time. The clients take turns. What a client does not read counts as unread instead
// (conn.Session.Unread).

const (
	// minLargeReply is the size, in bytes, from which a reply is large.
	minLargeReply = 1 << 20

	// DefaultLargeReplies is how many bytes large replies may have together. One of them may
	// be longer.
	DefaultLargeReplies = 64 << 20
)

// beginLarge waits until a reply of size bytes may be made, if that is large.
func (s *session) beginLarge(size int) {
	if size < minLargeReply {
		return
	}
	s.large = new(fairqueue.Use)
	if s.srv.large.Start(s.large, int64(size), &s.client.Key) {
		return
	}
	s.wait(func() { <-s.large.Begun() }) // soon: those that wait for their clients have ended theirs
}

// endLarge ends what beginLarge began: the reply is written, or it counts as unread.
func (s *session) endLarge() {
	if s.large != nil {
		s.large.End()
		s.large = nil
	}
}
