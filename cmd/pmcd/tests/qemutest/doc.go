// Package qemutest runs pmcd and pmcdctl as programs for other processors, s390x among
// them, which is big-endian, with qemu-user-static. PCP's clients of this machine, and
// a pmcd for its own processor, are on the other side of the connections.
package qemutest
