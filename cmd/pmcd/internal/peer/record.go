package peer

import (
	"regexp"
	"strings"
)

// Record is a part of a client's output with a name, so that tables can speak
// of it and failures point at it.
type Record struct {
	Key   string
	Lines []string
}

// Whole is a split that does not: one record without name.
func Whole(text string) []Record {
	return []Record{{Lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n")}}
}

// Lines makes each line a record named by its first word.
func Lines(text string) []Record {
	var rs []Record
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		key, _, _ := strings.Cut(l, " ")
		rs = append(rs, Record{key, []string{l}})
	}
	return rs
}

// pminfo prints the name of a metric (or "InDom: 29.2") at the margin, with or
// without what was asked for behind it. Help text is at the margin as well,
// but seldom is a dotted name alone.
var pminfoHead = regexp.MustCompile(`^(?:Error: )?([A-Za-z]\w*(?:\.\w+)+|InDom: [0-9.]+|[0-9]+\.[0-9]+\.[0-9]+)(?:$|:| PMID: | \[| =| 0x| One-line)`)

// Metrics makes what pminfo prints about one metric a record.
func Metrics(text string) []Record {
	var rs []Record
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if m := pminfoHead.FindStringSubmatch(l); m != nil {
			rs = append(rs, Record{Key: m[1]})
		} else if rs == nil {
			rs = append(rs, Record{})
		}
		r := &rs[len(rs)-1]
		r.Lines = append(r.Lines, l)
	}
	return rs
}
