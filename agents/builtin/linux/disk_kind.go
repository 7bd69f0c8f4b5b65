package linux

import "bytes"

// A kind says in which instance domain a line of /proc/diskstats is.
type kind uint8

const (
	kindNone kind = iota // in none: loop, ram, cdrom, xvm
	kindDisk
	kindPartition
	kindDM   // device mapper
	kindMD   // software RAID
	kindZRAM // compressed memory
	kindWWID
)

// diskKind tells by the name what a block device is, in the way of pmdalinux.
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

// isPartition reports whether a name that is not of dm or md is of a partition:
// sda1, nvme0n1p1, cciss/c0d0p1.
func isPartition(name []byte) bool {
	base := bytes.TrimRight(name, "0123456789")
	if bytes.IndexByte(name, '/') >= 0 {
		// Without digits at the end it counts as one, by tradition.
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
	// The names of these disks end in digits.
	for _, prefix := range []string{"mmcblk", "nvme", "rbd", "nbd"} {
		if rest, ok := bytes.CutPrefix(name, []byte(prefix)); ok {
			return bytes.IndexByte(rest, 'p') >= 0
		}
	}
	return true
}
