package proc

import (
	"bytes"
	"strconv"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// terminals are the drivers in /proc/tty/drivers, proc(5):
//
//	pty_slave            /dev/pts      136 0-1048575 pty:slave
type terminals struct {
	loaded  bool
	drivers []terminal
	names   map[uint32]string
}

type terminal struct {
	name        string // such as pts
	major       uint64
	first, last uint64 // minor numbers
}

// name returns the name, such as pts/3, that ps(1) shows for the terminal with this
// device number. It is "?" for no terminal and for one that is not known.
func (t *terminals) name(tree *tree, dev uint32) string {
	if dev == 0 {
		return "?"
	}
	if !t.loaded {
		t.loaded, t.names = true, make(map[uint32]string)
		b, _ := tree.Path("/proc/tty/drivers").Text(maxFile)
		t.parse(b)
	}
	name, ok := t.names[dev]
	if !ok {
		if len(t.names) > 10000 {
			clear(t.names)
		}
		major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
		// sysfs has all terminals except those of /dev/pts. The numbers in their names
		// (tty1, ttyS0) are not the minor numbers.
		if b, err := tree.Path("/sys/dev/char/").Num(int32(major)).Str(":").Num(int32(minor)).Link(); err == nil {
			name = string(b[bytes.LastIndexByte(b, '/')+1:])
		} else {
			name = t.find(uint64(major), uint64(minor))
		}
		t.names[dev] = name
	}
	return name
}

func (t *terminals) find(major, minor uint64) string {
	for _, d := range t.drivers {
		switch {
		case d.major != major || minor < d.first || minor > d.last:
		case d.first == d.last:
			return d.name
		default:
			return d.name + "/" + strconv.FormatUint(minor, 10)
		}
	}
	return "?"
}

func (t *terminals) parse(b []byte) {
	for len(b) > 0 {
		var line, device, num, rng []byte
		line, b = sysfile.CutLine(b)
		_, line = sysfile.Field(line)
		device, line = sysfile.Field(line)
		num, line = sysfile.Field(line)
		rng, _ = sysfile.Field(line)
		major, ok := sysfile.Uint(num)
		first, last, isRange := bytes.Cut(rng, []byte{'-'})
		if !isRange {
			last = first
		}
		from, ok1 := sysfile.Uint(first)
		to, ok2 := sysfile.Uint(last)
		if ok && ok1 && ok2 {
			t.drivers = append(t.drivers, terminal{string(bytes.TrimPrefix(device, []byte("/dev/"))), major, from, to})
		}
	}
}
