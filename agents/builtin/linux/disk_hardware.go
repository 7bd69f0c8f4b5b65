package linux

import (
	"strings"

	"github.com/gopcp/pmcd/agents/pmda"
)

// hardwareMetrics returns the metrics of the hardware of disks. /sys/block/DISK is a
// link to the directory of the device, such as
//
//	../devices/pci0000:00/0000:00:10.0/host2/target2:0:0/2:0:0:0/block/sda
func hardwareMetrics(s *disks) []pmda.Metric {
	controller := pmda.FromData(func(v *pmda.Value, k *disk) {
		link, err := s.h.hostReader.Path("/sys/block/").Name(k.sys).Link()
		if err != nil {
			return
		}
		if c := pciController(string(link)); c != "" {
			v.SetString(c)
		}
	})
	// C differs: it has the model of SCSI disks only, with the blanks at its end.
	model := pmda.FromData(func(v *pmda.Value, k *disk) {
		if b := s.h.hostReader.Path("/sys/block/").Name(k.sys).Str("/device/model").Value(); len(b) > 0 {
			v.SetBytes(b)
		}
	})
	return table(pmda.Metric{InDom: s.indom}, []row{
		{0, 105, "hinv.disk.ctlr", str, discrete, none, controller},
		{0, 106, "hinv.disk.model", str, discrete, none, model},
	})
}

// pciController returns the address of the device at the root of a PCI bus that a
// link leads through, as lspci(8) prints it: without the domain if that is 0. It is
// "" if there is none.
//
// C differs: it knows only the bus pci0000:00.
func pciController(link string) string {
	for link != "" {
		var part string
		part, link, _ = strings.Cut(link, "/")
		if bus, ok := strings.CutPrefix(part, "pci"); ok && strings.Contains(bus, ":") {
			addr, _, _ := strings.Cut(link, "/")
			if !strings.HasPrefix(addr, bus+":") {
				return ""
			}
			return strings.TrimPrefix(addr, "0000:")
		}
	}
	return ""
}
