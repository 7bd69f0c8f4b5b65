package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/message"
)

// ago is the time since an event, for a sentence.
func ago(d time.Duration) string {
	if d < time.Second {
		return "just now"
	}
	return age(d) + " ago"
}

// in is the time until an event, for a sentence.
func in(d time.Duration) string {
	if d < time.Second {
		return "now"
	}
	return "in " + age(d)
}

// plural is a number with a word, which has an s unless the number is 1.
func plural(n int, word string) string {
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

// age is a span of time in its two largest units.
func age(d time.Duration) string {
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.size {
			continue
		}
		text := fmt.Sprintf("%d%s", d/u.size, u.name)
		if i+1 < len(units) && d%u.size >= units[i+1].size {
			text += fmt.Sprintf("%d%s", d%u.size/units[i+1].size, units[i+1].name)
		}
		return text
	}
	return "<1s"
}

// groupName returns the user of "uid N" as the table of clients shows it, and any other
// text, which is a host, unchanged.
func groupName(text string) string {
	if number, ok := strings.CutPrefix(text, "uid "); ok {
		if uid, err := strconv.ParseInt(number, 10, 64); err == nil {
			return message.UserName(uid)
		}
	}
	return text
}

// amount writes n, which is of bytes or a number.
func amount(n int64, unit string) string {
	switch {
	case unit != "bytes" || n < 1<<10:
		return fmt.Sprint(n)
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
