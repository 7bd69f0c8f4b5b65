package cli

import "strings"

// strtol does what strtol(3) does. It returns the number at the beginning of s, limited to
// 32 bits, and the rest of s. With base 0, the prefixes 0x and 0 have a meaning.
func strtol(s string, base int) (n int, rest string) {
	const most = 1<<31 - 1
	t := strings.TrimLeft(s, " \t\n\v\f\r")
	negative := strings.HasPrefix(t, "-")
	if negative || strings.HasPrefix(t, "+") {
		t = t[1:]
	}
	if base == 0 {
		base = 10
		if len(t) > 2 && (t[:2] == "0x" || t[:2] == "0X") && digit(t[2]) < 16 {
			base, t = 16, t[2:]
		} else if strings.HasPrefix(t, "0") {
			base = 8
		}
	}
	i := 0
	for ; i < len(t) && digit(t[i]) < base; i++ {
		n = min(n*base+digit(t[i]), most)
	}
	if i == 0 {
		return 0, s
	}
	if negative {
		n = -n
	}
	return n, t[i:]
}

// digit returns the value of a digit, or 99 if c is not a digit.
func digit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return 99
}
