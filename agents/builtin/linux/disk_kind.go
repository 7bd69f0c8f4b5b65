package linux

import "bytes"

// A kind is the kind of a block device. Each kind has an instance domain.
type kind uint8

const (
	kindNone kind = iota // not an instance: loop, ram, cdrom, xvm
	kindDisk
	kindPartition
	kindDM   // device mapper
	kindMD   // software RAID
	kindZRAM // compressed memory
	kindWWID
)

// diskKind returns the kind of a block device by its name. The rules are those of
// pmdalinux.
func diskKind(name []byte) kind {
	hasPrefix := func(prefix string) bool { return bytes.HasPrefix(name, []byte(prefix)) }
	switch {
	case hasPrefix("dm-"):
		return kindDM
	case hasPrefix("md"):
		return kindMD
	case isPartition(name):
		return kindPartition
	case hasPrefix("zram"):
		return kindZRAM
	case hasPrefix("loop"), hasPrefix("ram"), isCDROM(name), bytes.Contains(name, []byte("xvm")):
		return kindNone
	case len(name) == 18 && name[0] >= '1' && name[0] <= '3':
		return kindWWID
	}
	return kindDisk
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isCDROM(name []byte) bool {
	return len(name) > 2 && string(name[:2]) == "sr" && isDigit(name[2])
}

// isPartition reports whether a block device that is not of dm or md is a
// partition: sda1, nvme0n1p1, cciss/c0d0p1.
func isPartition(name []byte) bool {
	base := bytes.TrimRight(name, "0123456789")
	if bytes.IndexByte(name, '/') >= 0 {
		// As in pmdalinux, a name with a slash and no digits at its end counts as
		// a partition.
		return len(base) == len(name) || bytes.HasSuffix(base, []byte{'p'})
	}
	if len(base) == len(name) || isCDROM(name) {
		return false
	}
	for _, whole := range []string{"loop", "ram", "zram"} {
		if bytes.HasPrefix(name, []byte(whole)) {
			return false
		}
	}
	// The names of these whole disks end in digits.
	for _, prefix := range []string{"mmcblk", "nvme", "rbd", "nbd"} {
		if rest, ok := bytes.CutPrefix(name, []byte(prefix)); ok {
			return bytes.IndexByte(rest, 'p') >= 0
		}
	}
	return true
}
