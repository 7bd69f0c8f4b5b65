package linux

import (
	"slices"

	"github.com/gopcp/pmcd/agents/pmda"
)

// Limits of System V IPC that the kernel does not use. linux/sem.h and linux/msg.h
// define them for programs of other systems.
const (
	semMap  = 1024000000 // SEMMAP, SEMMNU
	semOps  = 500        // SEMUME
	semUndo = 20         // SEMUSZ
	semMax  = 32767      // SEMVMX, SEMAEM
	msgPool = 512000     // MSGPOOL
	msgMap  = 16384      // MSGMAP, MSGTQL
	msgSize = 16         // MSGSSZ
	msgSegs = 65535      // MSGSEG
	shmMin  = 1          // SHMMIN
)

// ipcLimits returns the metrics of limits in /proc/sys/kernel, proc(5). The values
// are those of IPC_INFO of shmctl(2), msgctl(2) and semctl(2); unlike those, the
// files also exist in a tree of another Options.Root.
func ipcLimits(h *host) []pmda.Metric {
	sem, fromSem := h.numberLine("proc/sys/kernel/sem") // SEMMSL, SEMMNS, SEMOPM, SEMMNI
	msgMax, fromMsgMax := h.numberLine("proc/sys/kernel/msgmax")
	msgBytes, fromMsgBytes := h.numberLine("proc/sys/kernel/msgmnb")
	msgQueues, fromMsgQueues := h.numberLine("proc/sys/kernel/msgmni")
	shmMax, fromShmMax := h.numberLine("proc/sys/kernel/shmmax")
	shmSegs, fromShmSegs := h.numberLine("proc/sys/kernel/shmmni")
	shmAll, fromShmAll := h.numberLine("proc/sys/kernel/shmall")
	// constant returns a FetchFunc for a number that has a value if the file exists.
	constant := func(f *numberLine, n uint64) pmda.FetchFunc {
		return pmda.FromUint(func() (uint64, bool) { return n, f.rec.Words > 0 })
	}
	return slices.Concat(table(fromSem, []row{
		{21, 0, "ipc.sem.max_semmap", u32, discrete, none, constant(sem, semMap)},
		{21, 1, "ipc.sem.max_semid", u32, discrete, none, sem.at(3)},
		{21, 2, "ipc.sem.max_sem", u32, discrete, none, sem.at(1)},
		{21, 3, "ipc.sem.num_undo", u32, discrete, none, constant(sem, semMap)},
		{21, 4, "ipc.sem.max_perid", u32, discrete, none, sem.at(0)},
		{21, 5, "ipc.sem.max_ops", u32, discrete, none, sem.at(2)},
		{21, 6, "ipc.sem.max_undoent", u32, discrete, none, constant(sem, semOps)},
		{21, 7, "ipc.sem.sz_semundo", u32, discrete, none, constant(sem, semUndo)},
		{21, 8, "ipc.sem.max_semval", u32, discrete, none, constant(sem, semMax)},
		{21, 9, "ipc.sem.max_exit", u32, discrete, none, constant(sem, semMax)},
	}), table(fromMsgMax, []row{
		{22, 0, "ipc.msg.sz_pool", u32, discrete, kbyte, constant(msgMax, msgPool)},
		{22, 1, "ipc.msg.mapent", u32, discrete, none, constant(msgMax, msgMap)},
		{22, 2, "ipc.msg.max_msgsz", u32, discrete, none, msgMax.at(0)},
		{22, 5, "ipc.msg.max_msgseg", u32, discrete, none, constant(msgMax, msgSize)},
		{22, 6, "ipc.msg.num_smsghdr", u32, discrete, none, constant(msgMax, msgMap)},
		{22, 7, "ipc.msg.max_seg", u32, discrete, none, constant(msgMax, msgSegs)},
	}), table(fromMsgBytes, []row{
		{22, 3, "ipc.msg.max_defmsgq", u32, discrete, none, msgBytes.at(0)},
	}), table(fromMsgQueues, []row{
		{22, 4, "ipc.msg.max_msgqid", u32, discrete, none, msgQueues.at(0)},
	}), table(fromShmMax, []row{
		{23, 0, "ipc.shm.max_segsz", u32, discrete, octet, shmMax.at(0)},
		{23, 1, "ipc.shm.min_segsz", u32, discrete, octet, constant(shmMax, shmMin)},
	}), table(fromShmSegs, []row{
		{23, 2, "ipc.shm.max_seg", u32, discrete, none, shmSegs.at(0)},
		{23, 3, "ipc.shm.max_segproc", u32, discrete, none, shmSegs.at(0)},
	}), table(fromShmAll, []row{
		{23, 4, "ipc.shm.max_shmsys", u32, discrete, none, shmAll.at(0)},
	}))
}
