// Package roothelper starts agents with root's rights for a daemon that has
// given them up.
//
// There are two processes of the same program. The root helper, whose argv[0] is
// [Name], is started by the daemon while the daemon is still root. It stays root
// and runs [Serve]. The daemon becomes an ordinary user and talks to it by a
// [Client], over a pair of sockets:
//
//	daemon                                root helper
//	start ID, domain, digest, stderr  ->
//	                                  <-  started ID, pid, pipes | refused ID, reason |
//	                                      untrusted ID, path and reason
//	                                  <-  exited ID, wait status
//	stop ID, now                      ->
//	                                  <-  stopped ID
//	askHostName ID, container         ->
//	                                  <-  hostName ID, name | refused ID, reason
//	askProcess ID, container          ->
//	                                  <-  process ID, pid | refused ID, reason
//
// The root helper does not trust what it receives, because a client of pmcd may
// have taken over the daemon. It reads pmcd.conf itself and starts only what is in
// there; it executes no string from the socket. A start message names a line by
// its domain and a digest, so that a line that has changed is not started by
// mistake. If the root helper has no line with that digest, it reads the file
// again. The standard error output that it receives must be a pipe: what root
// writes to a socket could be taken for root's own message.
//
// A dso line may be for an agent that is built into the program. Then the root
// helper starts the program itself. Without a configuration file it uses the lines
// that are compiled in.
//
// It starts an agent only if no user but root can change what would be executed.
// The file, the program and its interpreter, each argument that can be code, and
// each directory and symbolic link on the way to them must belong to root, and
// must not be writable by their group or others (see [CheckAgent]). A directory further
// up may have the sticky bit and be writable. The working directory counts if an
// interpreter takes code from there. The rule is
// the same at the start of pmcd, at a reload and at a restart of the agent. For
// any other agent the reply is "untrusted", with the path that others can change.
// The daemon then starts the agent itself, as the user that such an agent should
// have. So the root helper never reads a file that others can change; such a file
// could be a link to one that they may not read. With Config.TrustAll it starts all
// agents as root, as C pmcd does.
//
// There are at most 4 processes of a line at a time. If descriptors of a message
// do not arrive, because the receiver has too many open files, the process is
// stopped and the start fails.
//
// The root helper also answers requests for the host name in a container and for its
// first process. It asks pmdaroot, to which the daemon itself must not be connected.
//
// When the daemon's end of the socket is closed, for whatever reason, the root
// helper stops all agents that it has started and exits. If the root helper ends
// first, its agents get SIGTERM, provided that Config.Start uses a child.Starter.
package roothelper

// Name is argv[0] of the root helper. PCP's scripts take a process for pmcd if
// its name is pmcd or ends in /pmcd.
const Name = "pmcd-root"

// Self is the path of this program. It is not os.Executable, because an update may
// have replaced or removed the file that was started.
const Self = "/proc/self/exe"
