package openmetrics

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// A unit is a word of pmParseUnitsStr(3).
type unit struct{ dim, scale int }

const (
	space = iota
	timeDim
	count
)

// units are the words, in lower case. Bytes and times have plurals.
var units = func() map[string]unit {
	m := map[string]unit{"count": {count, 0}, "counts": {count, 0}}
	for scale, prefix := range []string{"", "kilo kibi", "mega mebi", "giga gibi", "tera tebi", "peta pebi", "exa exbi", "zetta zebi", "yotta yobi"} {
		for _, p := range strings.Split(prefix, " ") {
			m[p+"byte"] = unit{space, scale}
		}
		if prefix != "" {
			for _, suffix := range []string{"byte", "b", "ib"} {
				m[prefix[:1]+suffix] = unit{space, scale}
			}
		}
	}
	for scale, words := range []string{"nanosecond nanosec ns", "microsecond microsec us", "millisecond millisec ms", "second sec s", "minute min", "hour hr h"} {
		for _, w := range strings.Split(words, " ") {
			m[w] = unit{timeDim, scale}
		}
	}
	for w, u := range m {
		if strings.HasSuffix(w, "byte") || strings.HasSuffix(w, "second") || w == "minute" || w == "hour" {
			m[w+"s"] = u
		}
	}
	return m
}()

// parseUnits parses units as pmParseUnitsStr(3) does. Scaling factors are allowed and have no
// effect, as in PCP's agent.
func parseUnits(s string) (pdu.Units, error) {
	above, below, _ := strings.Cut(s, "/")
	var dims, scales [3]int
	for i, part := range []string{above, below} {
		var seen [3]bool
		words := strings.Fields(part)
		for w := 0; w < len(words); w++ {
			word, exp, hasExp := strings.Cut(strings.ToLower(words[w]), "^")
			if w > 0 && word == "x" && !hasExp {
				continue // of "count x 10^3"
			}
			n := 1
			if hasExp {
				var err error
				if n, err = strconv.Atoi(exp); err != nil {
					return 0, fmt.Errorf("units %.200q: %.200q is not a number", s, exp)
				}
			}
			if word == "10" && hasExp && w > 1 && words[w-1] == "x" && seen[count] {
				scales[count] = n
				continue
			}
			if f, err := strconv.ParseFloat(word, 64); err == nil && !hasExp && w == 0 && f > 0 {
				continue
			}
			u, ok := units[word]
			if !ok || seen[u.dim] {
				return 0, fmt.Errorf("units %.200q: unknown or repeated word %.200q", s, words[w])
			}
			seen[u.dim] = true
			if i == 1 {
				n = -n
			}
			dims[u.dim] += n
			scales[u.dim] = u.scale
		}
	}
	for d := range dims {
		if dims[d] < -8 || dims[d] > 7 || scales[d] < -8 || scales[d] > 8 {
			return 0, fmt.Errorf("units %.200q: an exponent is too large", s)
		}
		if dims[d] == 0 {
			scales[d] = 0
		}
	}
	return pdu.NewUnits(dims[space], dims[timeDim], dims[count], scales[space], scales[timeDim], scales[count]), nil
}
