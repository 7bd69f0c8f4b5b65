package pdu

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// EscapeControls returns s with control characters, except those of keep, as Go writes them in strings,
// such as \x1b. Strings of agents are often from other programs and hosts, and clients print them on
// terminals, which control characters control. They are those of ASCII, U+0080 to U+009F, and, where s
// is not UTF-8, bytes of these values. Other bytes are not changed: names may be in another charset.
func EscapeControls(s, keep string) string {
	i := indexControl(s, keep)
	if i < 0 {
		return s
	}
	b := append(make([]byte, 0, len(s)+16), s[:i]...)
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1 && s[i] < 0xa0:
			b = append(b, `\x`...)
			b = strconv.AppendUint(b, uint64(s[i]), 16)
		case isControl(r) && strings.IndexByte(keep, s[i]) < 0:
			q := strconv.QuoteRune(r)
			b = append(b, q[1:len(q)-1]...)
		default:
			b = append(b, s[i:i+n]...)
		}
		i += n
	}
	return string(b)
}

func isControl(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 }

// indexControl returns the index of the first control character of s that is not in keep, or -1.
func indexControl[T string | []byte](s T, keep string) int {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if (c < ' ' || c == 0x7f) && strings.IndexByte(keep, c) < 0 {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		if isControl(r) || r == utf8.RuneError && n == 1 && c < 0xa0 {
			return i
		}
		i += n
	}
	return -1
}

// textControls are the control characters that texts of several lines may have.
const textControls = "\t\n"

// escapeBlock is EscapeControls for a value of type MetricString, which may end with NULs.
func escapeBlock(v []byte) []byte {
	n := len(v)
	for n > 0 && v[n-1] == 0 {
		n--
	}
	if indexControl(v[:n], textControls) < 0 {
		return v
	}
	return append([]byte(EscapeControls(string(v[:n]), textControls)), v[n:]...)
}

// escapeJSON escapes the control characters that JSON has as they are, from DEL on.
func escapeJSON(s string) string {
	if indexControl(s, "") < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 && s[i] < 0xa0 {
			r = rune(s[i])
		}
		if 0x7f <= r && r < 0xa0 {
			b.WriteString(`\u00`)
			b.WriteString(strconv.FormatInt(int64(r), 16))
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}
