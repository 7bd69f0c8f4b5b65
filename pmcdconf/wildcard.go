package pmcdconf

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/access"
)

// wildcard returns the addresses of a pattern that ends in "*".
func wildcard(pattern string) (access.HostSpec, error) {
	s := strings.TrimSuffix(pattern, "*")
	switch {
	case strings.Contains(s, ":"):
		return wildcard6(pattern, s)
	case strings.Contains(s, "."):
		return wildcard4(pattern, s)
	}
	return access.HostSpec{}, fmt.Errorf("bad IP address wildcard, %s", pattern)
}

// wildcard4 parses "a.b.": up to three numbers with a dot after each. The last dot
// may be missing. C pmcd accepts "129.127*", too, which is invalid in pmcd(1).
func wildcard4(pattern, s string) (access.HostSpec, error) {
	var addr, mask [4]byte
	n := 0
	if s != "." {
		parts := strings.Split(strings.TrimSuffix(s, "."), ".")
		if n = len(parts); n > 3 {
			return access.HostSpec{}, fmt.Errorf("too many dots in host pattern %q", pattern)
		}
		for i, part := range parts {
			v, ok := number(part, 10)
			if part == "" && i > 0 { // "1..*"
				v, ok = 0, true
			}
			if !ok || v > 255 {
				return access.HostSpec{}, fmt.Errorf("bad IP address wildcard, %s", pattern)
			}
			addr[i], mask[i] = byte(v), 255
		}
	}
	return access.HostSpec{
		Family: access.Inet,
		Addr:   netip.AddrFrom4(addr),
		Mask:   netip.AddrFrom4(mask),
		Level:  4 - n,
	}, nil
}

// wildcard6 parses "h:h:" or "h::h:": groups of 16 bits with a colon after each. The
// last colon may be missing.
//
// The groups that "::" stands for are not compared, and neither is the last group of
// the address, if there is one; pmcd(1) says only the latter. The level is 8 less the
// number of groups, and "::" counts as one group.
func wildcard6(pattern, s string) (access.HostSpec, error) {
	var addr, mask [16]byte
	spec := func(level int) access.HostSpec {
		return access.HostSpec{
			Family: access.IPv6,
			Addr:   netip.AddrFrom16(addr),
			Mask:   netip.AddrFrom16(mask),
			Level:  level,
		}
	}
	if s == ":" || s == "::" {
		return spec(8), nil
	}
	bad := fmt.Errorf("bad IPv6 address wildcard, %s", pattern)
	if !strings.HasSuffix(s, ":") {
		s += ":"
	}
	switch {
	case strings.Contains(s, ":::"), strings.Count(s, "::") > 1:
		return access.HostSpec{}, fmt.Errorf("too many empty regions in host pattern %q", pattern)
	case strings.Count(s, ":") > 7:
		return access.HostSpec{}, fmt.Errorf("too many colons in host pattern %q", pattern)
	case strings.HasPrefix(s, ":"): // C pmcd cannot parse "::1:*", although it has a meaning
		return access.HostSpec{}, bad
	}
	before, after, gap := strings.Cut(s, "::")
	left := strings.Split(strings.TrimSuffix(before, ":"), ":")
	var right []string
	if after != "" {
		right = strings.Split(strings.TrimSuffix(after, ":"), ":")
	}
	put := func(i int, group string) bool {
		v, ok := number(group, 16)
		if !ok || v > 0xffff {
			return false
		}
		addr[2*i], addr[2*i+1] = byte(v>>8), byte(v)
		mask[2*i], mask[2*i+1] = 255, 255
		return true
	}
	for i, group := range left {
		if !put(i, group) {
			return access.HostSpec{}, bad
		}
	}
	for i, group := range right {
		if !put(7-len(right)+i, group) {
			return access.HostSpec{}, bad
		}
	}
	level := 8 - len(left) - len(right)
	if gap {
		level--
	}
	return spec(level), nil
}

// number returns the value of s in the syntax of strtol(3): white space and a plus
// may precede the digits, and 0x in base 16.
func number(s string, base int) (uint64, bool) {
	for s != "" && isSpace(s[0]) {
		s = s[1:]
	}
	s = strings.TrimPrefix(s, "+")
	if base == 16 && len(s) > 2 && (s[:2] == "0x" || s[:2] == "0X") {
		s = s[2:]
	}
	v, err := strconv.ParseUint(s, base, 32)
	return v, err == nil
}
