package labels

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// domainName is the NIS domain name, or a stand-in (getdomainname(2)).
func domainName() string {
	var u syscall.Utsname
	if syscall.Uname(&u) == nil {
		var b strings.Builder
		for _, c := range u.Domainname {
			if c == 0 {
				break
			}
			b.WriteByte(byte(c))
		}
		if name := b.String(); name != "" && name != "(none)" {
			return name
		}
	}
	return "localdomain"
}

// maxMachineID is the largest size of /etc/machine-id, in bytes.
const maxMachineID = 4 << 10

// machineID reads the id of this machine, and labels.conf. It returns the label of the
// id or, if labels.conf says so, of a hash of it.
func (h *Host) machineID() pdu.NamedLabel {
	b, err := regular.ReadFile("/etc/machine-id", maxMachineID)
	id := strings.TrimSpace(string(b))
	if err != nil || id == "" {
		id = "localmachine"
	}
	var conf hostlabels.Conf
	if h.cfg.Dir != "" {
		conf, _ = hostlabels.LoadConf(h.cfg.Dir, h.warn)
	}
	if conf.MachineIDHash == "sha256" {
		sum := sha256.Sum256([]byte(id))
		return Named("machineid_sha256", hex.EncodeToString(sum[:]), 0)
	}
	return Named("machineid", id, 0)
}
