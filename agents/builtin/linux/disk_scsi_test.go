package linux

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

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
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{
		"hinv.map.scsi": "scsi0:0:0:0_Direct-Access=sda scsi1:0:2:3_CD-ROM=sr0",
	})
	// As in 7.2.1, without blanks.
	if got, want := instText(r.Instances(indomSCSI)), "0=scsi0:0:0:0_Direct-Access 1=scsi1:0:2:3_CD-ROM"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
