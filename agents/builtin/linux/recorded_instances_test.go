package linux

import (
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

// testdata/vm was recorded on a virtual machine with two CPUs; of /proc/slabinfo
// it has the first lines.
func TestRecordedInstances(t *testing.T) {
	r := newRig(t, Options{Root: "testdata/vm", PageSize: 4096, Access: true})
	r.Want(map[string]string{})
}

// The trees of the tests below are composed from the formats that the kernel
// documents.

func TestInterrupts(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/stat": "cpu 3 0 0 0\ncpu0 1 0 0 0\ncpu2 2 0 0 0\ncpu3 2 0 0 0\n"})
	r := newRig(t, Options{Root: root})
	for _, tt := range []struct{ what, text, lines, cells, cpus, errors, missed, labels string }{{
		"CPU 1 is offline",
		"           CPU0       CPU2\n  1:  10 20  IO-APIC   1-edge      i8042\nLOC: 3 4   Local timer interrupts\nERR: 5\nMIS: 6\n",
		"1=30 LOC=7", "1::cpu0=10 1::cpu2=20 LOC::cpu0=3 LOC::cpu2=4", "cpu0=13 cpu2=24", "5", "6", "IO-APIC 1-edge i8042",
	}, {
		"other numbers",
		"           CPU0       CPU2\n  1:  11 20  IO-APIC   1-edge      i8042\nLOC: 3 18446744073709551615   Local timer interrupts\nERR: 6\n",
		"1=31 LOC=2", "1::cpu0=11 1::cpu2=20 LOC::cpu0=3 LOC::cpu2=4294967295", "cpu0=14 cpu2=19", "6", "0", "IO-APIC 1-edge i8042",
	}, {
		"another device, a line less",
		"           CPU0       CPU2\n  1:  11 20  IO-APIC   1-edge      vda\n",
		"1=31", "1::cpu0=11 1::cpu2=20", "cpu0=11 cpu2=20", "0", "0", "IO-APIC 1-edge vda",
	}, {
		"a CPU more, a line with one number, a broken one, a line twice",
		"     CPU0  CPU2 CPU3\n  1: 1 2 3 x\n  2: 5\nABC: 1 x 3 y\n  1: 9 9 9\nlong_: 7 7 7\n:\n",
		"1=6 2=5 ABC=1 long_=21", "1::cpu0=1 1::cpu2=2 1::cpu3=3 2::cpu0=5 ABC::cpu0=1 long_::cpu0=7 long_::cpu2=7 long_::cpu3=7",
		"cpu0=14 cpu2=9 cpu3=10", "0", "0", "x",
	}, {
		"nothing", "", "", "", "", "", "", "",
	}} {
		pmdatest.WriteFile(t, root, "proc/interrupts", tt.text)
		pmdatest.WriteFile(t, root, "proc/softirqs", tt.text)
		for range 2 { // the second time only numbers are taken
			for name, want := range map[string]string{
				"kernel.all.interrupts.total":  tt.lines,
				"kernel.percpu.interrupts":     tt.cells,
				"kernel.percpu.intr":           tt.cpus,
				"kernel.all.interrupts.errors": tt.errors,
				"kernel.all.interrupts.missed": tt.missed,
				"kernel.all.softirqs.total":    tt.lines,
				"kernel.percpu.sirq":           tt.cpus,
			} {
				got := strings.Fields(r.Values(name))
				if len(got) != len(strings.Fields(want)) {
					t.Errorf("%s: %s is %q, want %q", tt.what, name, got, want)
				}
				for _, w := range strings.Fields(want) {
					if !strings.Contains(" "+strings.Join(got, " ")+" ", " "+w+" ") {
						t.Errorf("%s: %s is %q, without %s", tt.what, name, got, w)
					}
				}
			}
		}
		var labels pdu.Labels
		req := &pdu.LabelReq{Kind: pdu.LabelInstances, Ident: uint32(pdu.NewInDom(60, indomIRQ))}
		if err := agenttest.Do(r.Transport, agents.Origin{}, req, &labels); err != nil {
			t.Fatal(err)
		}
		if text := `"irq":"1","irqtext":"` + tt.labels + `"`; tt.text != "" && !strings.Contains(string(labels.Sets[0].JSON), text) {
			t.Errorf("%s: labels are %s, without %s", tt.what, labels.Sets[0].JSON, text)
		}
	}
}

func TestZones(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/zoneinfo": "Node 0, zone      DMA\n" +
		"  per-node stats\n      nr_inactive_anon 10\n      workingset_activate_anon 2\n      node_scanned 3\n" +
		"  pages free     3840\n        min      23\n        high     x\n        present  3998\n        protection: (0, 3019, x, 7)\n" +
		"      nr_free_pages 3839\n      numa_hit 18446744073709551615\n  pagesets\n    cpu: 0\n              count: 5\n              high:  6\n" +
		"Node 0, zone   Normal\n  pages free     1\n        present  2\n        protection: (0)\n" +
		"Node 1, zone   Normal\n  per-node stats\n      nr_inactive_anon 20\n  pages free     4\n        present  5\n" +
		"Node 1, zone  Movable\n  pages free     0\n        present  0\n        protection: (0, 0)\n" +
		"Node x, zone Bad\n  pages free 8\n        present 9\nNode 2\n  min 5\n"})
	r := newRig(t, Options{Root: root, PageSize: 8192})
	for range 2 {
		r.Want(map[string]string{
			"mem.zoneinfo.free":                   "DMA::node0=30720 Normal::node0=8 Normal::node1=32",
			"mem.zoneinfo.min":                    "DMA::node0=184",
			"mem.zoneinfo.high":                   "",
			"mem.zoneinfo.present":                "DMA::node0=31984 Normal::node0=16 Normal::node1=40",
			"mem.zoneinfo.nr_inactive_anon":       "node0=80 node1=160",
			"mem.zoneinfo.workingset_active_anon": "node0=16",
			"mem.zoneinfo.scanned":                "node0=24",
			"mem.zoneinfo.nr_free_pages":          "DMA::node0=30712",
			"mem.zoneinfo.protection": "DMA::node0::lowmem_reserved0=0 DMA::node0::lowmem_reserved1=24152 DMA::node0::lowmem_reserved3=56 " +
				"Normal::node0::lowmem_reserved0=0 Movable::node1::lowmem_reserved0=0 Movable::node1::lowmem_reserved1=0",
		})
	}
	if got := ids(r.Instances(indomZone)); got != "0=node0 1=DMA::node0 2=Normal::node0 3=node1 4=Normal::node1" {
		t.Errorf("instances are %s", got)
	}
	// Memory was plugged in: the zone has had an id all the time.
	pmdatest.WriteFile(t, root, "proc/zoneinfo", "Node 1, zone  Movable\n  pages free     6\n        present  7\n")
	if got := ids(r.Instances(indomZone)); got != "5=Movable::node1" {
		t.Errorf("instances are %s", got)
	}
}

func TestBuddies(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{})
	r := newRig(t, Options{Root: root, PageSize: 8192})
	for _, tt := range []struct{ text, pages, total string }{
		{"Node 0, zone      DMA      5      7 \nNode 1, zone   Normal  3  1\n",
			"DMA::order0::node0=5 DMA::order1::node0=7 Normal::order0::node1=3 Normal::order1::node1=1",
			"DMA::order0::node0=40 DMA::order1::node0=112 Normal::order0::node1=24 Normal::order1::node1=16"},
		{"Node 1, zone   Normal  4\nNode x, zone   Normal  4\n", "Normal::order0::node1=4", "Normal::order0::node1=32"},
		{"Node 0, zone DMA nan\nNode 0, zone Normal -1\nNode 0, zone High 1e300\n", "", ""},
		{"Node 0, zone DMA 1\nNode 0, zone Normal x\n", pdu.ErrnoGeneric.Error(), pdu.ErrnoGeneric.Error()},
		{"Node 0\n", pdu.ErrnoGeneric.Error(), pdu.ErrnoGeneric.Error()},
		{"", "", ""},
	} {
		pmdatest.WriteFile(t, root, "proc/buddyinfo", tt.text)
		r.Want(map[string]string{"mem.buddyinfo.pages": tt.pages, "mem.buddyinfo.total": tt.total})
	}
}

func TestSwaps(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n" +
		"/dev/vda2                               partition\t1048572\t\t572\t\t-2\n/swap\\040file file 100 200 5\n" +
		"/dev/vdb partition x 5 y\nnothing file 1 2 3\n/dev/vda2 partition 1 1 1\n/dev/vdc\n"})
	newRig(t, Options{Root: root}).Want(map[string]string{
		"swapdev.free":     "/dev/vda2=1048000 /swap\\040file=0",
		"swapdev.length":   "/dev/vda2=1048572 /swap\\040file=100",
		"swapdev.maxswap":  "/dev/vda2=1048572 /swap\\040file=100",
		"swapdev.vlength":  "/dev/vda2=0 /swap\\040file=0 /dev/vdb=0 /dev/vdc=0",
		"swapdev.priority": "/dev/vda2=-2 /swap\\040file=5",
	})
}

func TestSCSI(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/scsi/scsi": "Attached devices:\nHost: scsi0 Channel: 00 Id: 00 Lun: 00\n  Vendor: QEMU     Model: QEMU HARDDISK    Rev: 2.5+\n" +
			"  Type:   Direct-Access                    ANSI  SCSI revision: 05\n" +
			"Host: scsi1 Channel: 00 Id: 02 Lun: 03\n  Vendor: x\n  Type:   CD-ROM  ANSI\n" +
			"Host: scsi1 Channel: 00 Id: 09 Lun: 00\n  Type:   Direct-Access\n" + // has no block device
			"Host: scsi1 Channel: x Id: 02 Lun: 03\n  Type: Direct-Access\nHost:\n  Type: Direct-Access\n",
		"sys/class/scsi_device/0:0:0:0/device/block/sda/": "",
		"sys/class/scsi_device/1:0:2:3/device/block/sr0/": "",
	})
	r := newRig(t, Options{Root: root})
	r.Want(map[string]string{
		"hinv.map.scsi": "scsi0:0:0:0_Direct-Access=sda scsi1:0:2:3_CD-ROM=sr0",
	})
	// As in 7.2.1, without blanks.
	if got, want := ids(r.Instances(indomSCSI)), "0=scsi0:0:0:0_Direct-Access 1=scsi1:0:2:3_CD-ROM"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestIPC(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/sysvipc/shm": "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime                   rss                  swap\n" +
			"        -2          7  1600                  4097    11    12      1     0     0     0     0          1          2          3                  8192                  4096\n" +
			"         5          9  3644            4294967296    13    14      2  4000000     0     0     0          1          2          3                  4096                     0\n" +
			"x 10 600 1\n6 x 600 1\n7 7 600 1\n8 11 2600 x\n",
		// Older kernels have no rss and swap.
		"proc/sysvipc/msg":       "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n 1 0 666 100 2 7 8 0 0 0 0 1 2 3\n 2 32769 600 50 1 9 0 0 0 0 0 1 2 3\n",
		"proc/sysvipc/sem":       "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n 1 0 600 3 0 0 0 0 1 2\n",
		"proc/sys/kernel/sem":    "32000\t1024000000\tx\t32001\n",
		"proc/sys/kernel/shmmax": "18446744073692774399\n",
		"proc/sys/kernel/shmmni": "4096\n",
		"proc/sys/kernel/msgmax": "8192\n",
		"proc/sys/kernel/msgmnb": "16384\n",
	})
	newRig(t, Options{Root: root, PageSize: 4096}).Want(map[string]string{
		"ipc.shm.key":             "7=0xfffffffe 9=0x00000005 11=0x00000008",
		"ipc.shm.owner":           "7=root 9=4000000",
		"ipc.shm.perms":           "7=600 9=644 11=600",
		"ipc.shm.segsz":           "7=4097 9=0",
		"ipc.shm.nattch":          "7=1 9=2",
		"ipc.shm.status":          "7=dest 9=dest locked 11=locked",
		"ipc.shm.creator_pid":     "7=11 9=13",
		"ipc.shm.last_access_pid": "7=12 9=14",
		"ipc.shm.tot":             "8192",
		"ipc.shm.rss":             "12288",
		"ipc.shm.swp":             "4096",
		"ipc.shm.used_ids":        "3",
		"ipc.shm.swap_attempts":   "0",
		"ipc.shm.max_segsz":       "4278190079",
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

// Slab caches and serial lines are for root, not for the client before him.
func TestOnlyRoot(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/slabinfo": "slabinfo - version: 2.1\n# name            <active_objs>\n" +
			"kmalloc-64 8640 8641 64 64 1 : tunables    0    0    0 : slabdata    135    136      0\nbad 1 x 3 0 5\n",
		"proc/tty/driver/serial": "serinfo:1.0 driver revision:\n0: uart:16550A port:000003F8 irq:26 tx:218 rx:5 fe:1 pe:2 brk:3 oe:x RTS|CTS\n" +
			"1: uart:unknown port:000002F8 irq:3\nx: uart:16550A irq:1\n2: port:1\n",
	})
	const slab, tty = "mem.slabinfo.objects.active", "tty.serial.tx"
	r := newRig(t, Options{Root: root, PageSize: 4096})
	attrs := r.Agent.(agents.AttrSetter)
	for _, tt := range []struct {
		uid, slab, tty string
	}{{"", "", ""}, {"0", "kmalloc-64=8640 bad=1", "0=218"}, {"1000", "", ""}, {"0", "kmalloc-64=8640 bad=1", "0=218"}, {"x", "", ""}} {
		if tt.uid != "" {
			attrs.SetAttr(0, pdu.Attr{Code: pdu.AttrUserID, Value: []byte(tt.uid)})
		}
		r.Want(map[string]string{slab: tt.slab, tty: tt.tty})
		if got := len(r.Instances(indomSlab)); got != len(strings.Fields(tt.slab)) {
			t.Errorf("uid %q: %d slab caches", tt.uid, got)
		}
	}
	all := newRig(t, Options{Root: root, PageSize: 4096, Access: true})
	all.Want(map[string]string{
		slab:                                  "kmalloc-64=8640 bad=1",
		"mem.slabinfo.objects.total":          "kmalloc-64=8641",
		"mem.slabinfo.objects.size":           "kmalloc-64=64 bad=3",
		"mem.slabinfo.slabs.active":           "kmalloc-64=135",
		"mem.slabinfo.slabs.total":            "kmalloc-64=136",
		"mem.slabinfo.slabs.objects_per_slab": "kmalloc-64=64 bad=0",
		"mem.slabinfo.slabs.total_size":       "kmalloc-64=552960",
		"tty.serial.rx":                       "0=5",
		"tty.serial.frame":                    "0=1",
		"tty.serial.parity":                   "0=2",
		"tty.serial.brk":                      "0=3",
		"tty.serial.overrun":                  "",
		"tty.serial.irq":                      "0=26",
	})
	// Linux 2.4, and nothing that is known.
	for _, text := range []string{"slabinfo - version: 1.1\nkmem_cache 59 78 100 2 2 1\n", "x\nkmem_cache 59 78\n", ""} {
		pmdatest.WriteFile(t, root, "proc/slabinfo", text)
		all.Want(map[string]string{slab: ""})
	}
}
