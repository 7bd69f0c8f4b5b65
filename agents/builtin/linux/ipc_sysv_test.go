package linux

import (
	"fmt"
	osuser "os/user"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

func TestIPC(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/sysvipc/shm": "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n" +
			"        -2          7  1600                  4097    11    12      1     0     0     0     0          1          2          3                  8192                  4096\n" +
			"         5          9  3644            4294967296    13    14      2  4000000     0     0     0          1          2          3                  4096                     0\n" +
			"x 10 600 1\n6 x 600 1\n7 7 600 1\n8 11 2600 x\n",
		// Older kernels lack the columns rss and swap.
		"proc/sysvipc/msg":       "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n 1 0 666 100 2 7 8 0 0 0 0 1 2 3\n 2 32769 600 50 1 9 0 0 0 0 0 1 2 3\n",
		"proc/sysvipc/sem":       "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n 1 0 600 3 0 0 0 0 1 2\n",
		"proc/sys/kernel/sem":    "32000\t1024000000\tx\t32001\n",
		"proc/sys/kernel/shmmax": "18446744073692774399\n",
		"proc/sys/kernel/shmmni": "4096\n",
		"proc/sys/kernel/msgmax": "8192\n",
		"proc/sys/kernel/msgmnb": "16384\n",
	})
	newHarness(t, Options{Root: root, PageSize: 4096}).Want(map[string]string{
		"ipc.shm.key":             "7=0xfffffffe 9=0x00000005 11=0x00000008",
		"ipc.shm.owner":           "7=root 9=4000000",
		"ipc.shm.perms":           "7=600 9=644 11=600",
		"ipc.shm.segsz":           "7=4097 9=4294967295",
		"ipc.shm.nattch":          "7=1 9=2",
		"ipc.shm.status":          "7=dest 9=dest locked 11=locked",
		"ipc.shm.creator_pid":     "7=11 9=13",
		"ipc.shm.last_access_pid": "7=12 9=14",
		"ipc.shm.tot":             "4294967295",
		"ipc.shm.rss":             "12288",
		"ipc.shm.swp":             "4096",
		"ipc.shm.used_ids":        "3",
		"ipc.shm.swap_attempts":   "0",
		"ipc.shm.max_segsz":       "4294967295",
		"ipc.shm.min_segsz":       "1",
		"ipc.shm.max_segproc":     "4096",
		"ipc.shm.max_shmsys":      "",
		"ipc.msg.key":             "0=0x00000001 32769=0x00000002",
		"ipc.msg.msgsz":           "0=100 32769=50",
		"ipc.msg.messages":        "0=2 32769=1",
		"ipc.msg.last_send_pid":   "0=7 32769=9",
		"ipc.msg.used_queues":     "2",
		"ipc.msg.tot_msg":         "3",
		"ipc.msg.tot_bytes":       "150",
		"ipc.msg.max_msgsz":       "8192",
		"ipc.msg.max_msgqid":      "",
		"ipc.sem.nsems":           "0=3",
		"ipc.sem.used_sem":        "1",
		"ipc.sem.tot_sem":         "3",
		"ipc.sem.max_perid":       "32000",
		"ipc.sem.max_ops":         "",
		"ipc.sem.max_semid":       "32001",
		"ipc.sem.max_semval":      "32767",
	})
}

// The name of a user who owns many objects is looked up once in a request.
func TestIPCOwners(t *testing.T) {
	lookups := 0
	defer func(old func(string) (*osuser.User, error)) { lookupUser = old }(lookupUser)
	lookupUser = func(uid string) (*osuser.User, error) {
		lookups++
		return &osuser.User{Username: fmt.Sprint("user", uid, ".", lookups)}, nil
	}
	text := "key msqid perms cbytes qnum lspid lrpid uid gid cuid cgid stime rtime ctime\n"
	for i := range 1000 {
		text += fmt.Sprintf("0 %d 600 0 0 0 0 7 0 7 0 0 0 0\n", i)
	}
	h := newHarness(t, Options{Root: pmdatest.Tree(t, map[string]string{"proc/sysvipc/msg": text})})
	for request := 1; request <= 2; request++ {
		got := h.Values("ipc.msg.owner")
		if want := fmt.Sprintf("=user7.%d", request); strings.Count(got, want) != 1000 || lookups != request {
			t.Errorf("request %d: %d lookups, %.100s", request, lookups, got)
		}
	}
}
