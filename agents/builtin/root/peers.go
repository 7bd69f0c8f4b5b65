package root

import (
	"cmp"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
)

// pcpUsers returns the users whose processes may connect, besides root: PCP's user and
// that of this process.
func pcpUsers() []uint32 {
	list := []uint32{uint32(os.Geteuid())}
	if u, err := user.Lookup(cmp.Or(os.Getenv("PCP_USER"), "pcp")); err == nil {
		if uid, err := strconv.ParseUint(u.Uid, 10, 32); err == nil {
			list = append(list, uint32(uid))
		}
	}
	return list
}

// refuse logs that a process may not connect, once for a user.
func (s *server) refuse(peer syscall.Ucred) {
	s.mu.Lock()
	logged := s.refused[peer.Uid] || len(s.refused) >= 100
	if !logged {
		s.refused[peer.Uid] = true
	}
	s.mu.Unlock()
	if !logged {
		s.log.Warn("{agent}: process {peer_pid} of user {uid} may not connect to {path}: only processes of root and of PCP's user may", "peer_pid", peer.Pid, "uid", peer.Uid, "path", s.path)
	}
}

// allowed reports whether a process may connect: one of root or of PCP's user.
func (s *server) allowed(peer syscall.Ucred) bool {
	return peer.Uid == 0 || slices.Contains(s.peers, peer.Uid)
}
