package linux

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// scsi reads /proc/scsi/scsi, which has several lines for each device, and finds
// the block device in /sys. Devices without a block device are not instances.
//
//	Host: scsi0 Channel: 00 Id: 00 Lun: 00
//	  Vendor: QEMU     Model: QEMU HARDDISK    Rev: 2.5+
//	  Type:   Direct-Access                    ANSI  SCSI revision: 05
//
// PCP before 7 had a blank before the type in names of instances.
type scsi struct {
	h         *host
	file      *sysfile.File
	instances *instances[scsiDisk]
}

type scsiDisk struct{ dev string }

func newSCSI(h *host) *scsi {
	return &scsi{h: h, file: h.file("proc/scsi/scsi"), instances: newInstances[scsiDisk](h, indomSCSI)}
}

func (s *scsi) read(context.Context, *pmda.Request) error {
	b, err := s.file.Read()
	s.parse(b)
	return err
}

func (s *scsi) parse(b []byte) {
	s.instances.begin()
	defer s.instances.end()
	addr := "" // of the device whose line Type follows
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		if bytes.HasPrefix(line, []byte("Host:")) {
			addr = scsiAddr(line)
			continue
		}
		_, kind, ok := bytes.Cut(line, []byte("Type:"))
		if kind, _ = sysfile.Field(kind); !ok || addr == "" || len(kind) == 0 {
			continue
		}
		devs := dirNames(s.h.path("sys/class/scsi_device/" + addr + "/device/block"))
		if len(devs) > 0 {
			if i := s.instances.add([]byte("scsi" + addr + "_" + string(kind))); i != nil {
				i.dev = devs[0]
			}
		}
		addr = ""
	}
}

// scsiAddr returns the address in a line Host, such as 0:0:0:0, or "" if the line is
// malformed.
func scsiAddr(line []byte) string {
	var words [8]string
	for i := range words {
		var word []byte
		word, line = sysfile.Field(line)
		words[i] = string(word)
	}
	host, ok := strings.CutPrefix(words[1], "scsi")
	if !ok || words[2] != "Channel:" || words[4] != "Id:" || words[6] != "Lun:" {
		return ""
	}
	var addr [4]uint64
	for i, w := range []string{host, words[3], words[5], words[7]} {
		if addr[i], ok = sysfile.Uint([]byte(w)); !ok {
			return ""
		}
	}
	return fmt.Sprintf("%d:%d:%d:%d", addr[0], addr[1], addr[2], addr[3])
}

func (s *scsi) metrics() []pmda.Metric {
	indom := &pmda.InDom{
		Serial: indomSCSI,
		Insts:  s.instances,
		Source: &pmda.Source{Read: s.read},
		Labels: pmda.Labels{"device_type": "block", "indom_name": "per disk"},
	}
	dev := pmda.FromData(func(v *pmda.Value, i *scsiDisk) { v.SetString(i.dev) })
	return table(pmda.Metric{InDom: indom}, []row{{15, 0, "hinv.map.scsi", str, discrete, none, dev}})
}
