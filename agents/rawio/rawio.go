// Package rawio makes unannounced system calls: the scheduler is not told of them,
// as it is by syscall.Read. A thread that is preempted in what may be a long system call has
// its place taken by another thread, and that one is woken up for nothing. An
// unannounced call that blocks stops all goroutines in the end. So each of them
// on a stream whose other end belongs to another program has a reason why it
// cannot block:
//
//   - [Read] and [Write] of a pipe or a TCP socket with O_NONBLOCK: neither
//     carries descriptors, so a call closes nothing and takes no more time than
//     it takes to copy.
//   - Read of a Unix socket that cannot hold descriptors (SO_PASSRIGHTS is off
//     since before the peer connected, Linux 6.16): likewise.
//   - [ReadNoRights] of any other Unix socket. A read that takes a message with
//     descriptors closes them. If the last descriptor of a TCP socket is among
//     them, that lasts as long as the sender's SO_LINGER says. ReadNoRights peeks:
//     recvmsg(MSG_PEEK|MSG_DONTWAIT) without a control buffer installs and closes
//     nothing, the queue keeps its reference, and MSG_CTRUNC tells of descriptors.
//     It then takes the bytes that it has seen, and no more. Only one goroutine
//     reads a socket, so those are the same bytes. An urgent byte would be skipped
//     by the peek and dropped, with its descriptors, by the read. So such a socket
//     has SO_OOBINLINE, see [RefuseRights].
//   - Write, or send(2) with MSG_DONTWAIT, to a Unix socket that cannot hold
//     descriptors: it only queues. To any other one a write is announced (see
//     [NonblockWriter.Announce]): before Linux 6.8 it may run the collector of
//     sockets in flight, and that closes what strangers have left.
//   - [PeekNoRights] is announced, since it may wait. Its caller then takes the
//     bytes that it has seen, with MSG_DONTWAIT.
//   - epoll_ctl(2) copies nothing and closes nothing.
//
// close(2) is always announced. Package daemon closes Unix sockets of clients in
// goroutines of their own, in bounded number.
package rawio

import (
	"syscall"
	"unsafe"
)

// Read is read(2) of a descriptor that does not block (O_NONBLOCK). It is not
// announced.
func Read(fd uintptr, b []byte) (int, error) { return rawIO(syscall.SYS_READ, fd, b) }

// Write is write(2) likewise.
func Write(fd uintptr, b []byte) (int, error) { return rawIO(syscall.SYS_WRITE, fd, b) }

func rawIO(trap, fd uintptr, b []byte) (int, error) {
	for {
		n, _, err := syscall.RawSyscall(trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch err {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}

// write is an announced write(2).
func write(fd uintptr, b []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), b)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
