// Package roothelper starts agents with root's rights for a daemon that has
// given them up.
//
// There are two processes of the same program. The root helper, whose argv[0] is
// [Name], is started by the daemon while that is root still, stays root, and
// runs [Serve]. The daemon becomes an ordinary user and has a [Client] for it.
// They talk over a pair of sockets:
//
//	daemon                                root helper
//	start ID, domain, digest, stderr  ->
//	                                  <-  started ID, pid, pipes | refused ID, reason |
//	                                      untrusted ID, reason
//	                                  <-  ended ID, wait status
//	stop ID [now]                     ->
//	                                  <-  gone ID
//	ask ID, container                 ->
//	                                  <-  named ID, host | refused ID, reason
//
// The root helper believes nothing of what it is sent, for the daemon may be in
// the hands of a client. It starts what it has read from pmcd.conf itself and
// executes no string from the socket: a start names a line by its domain, and
// by a digest so that a line that has become another one is not taken for it.
// A line that it does not know makes it read the file again. The stderr that it
// takes is a pipe, for what root writes to a socket is root's word.
//
// A dso line may be for an agent that is part of the program; then it is the
// program that is started. Without a file there are the lines that are compiled
// in.
//
// It starts an agent if only root can change what would be executed: the
// file, the program and its interpreter, each argument that can be code, and each
// directory and link on the way to them must belong to root, and neither their
// group nor others may be able to write to them (see [CheckAgent]). The rule is
// the same at the start, at a reload and at a restart. For another agent the
// answer is "untrusted" with what others can change. The daemon then starts it
// itself: it is the user that such an agent should have, and so the root helper
// never reads a file that others can change, which may be a link to one that they
// cannot read. Config.TrustAll is C pmcd's behaviour: all agents are root's.
//
// Of each line there are at most 4 processes at a time. What comes without the
// descriptors that it should have, because there were too many open files, is
// stopped, and is an error at the other end.
//
// The other question that it answers is what the host is called in a container,
// which it asks pmdaroot: the daemon itself must not be connected to that.
//
// When the daemon's end of the socket is closed, by whatever end of the daemon,
// the root helper stops all that it has started and ends. Should the root helper end
// first, what it has started gets SIGTERM, if the program starts it by a
// child.Starter.
package roothelper

// Name is argv[0] of the root helper. PCP's scripts take a process for pmcd if
// its name is pmcd or ends in /pmcd.
const Name = "pmcd-root"

// Self is this program, even if there is another one by now, or none, where it
// was: that is why it is not os.Executable.
const Self = "/proc/self/exe"
