package openmetrics

import (
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

// addName adds the name of a metric. The error says why it cannot have that name.
func (a *agent) addName(name string, id pdu.PMID) error {
	if len(name) > maxName || strings.Count(name, ".") >= maxDepth {
		return fmt.Errorf("its name has more than %d bytes or %d parts", maxName, maxDepth)
	}
	for c := range strings.SplitSeq(name, ".") {
		if !validName("a"+c) || c == "" || strings.Contains(c, ":") { // it may begin with a digit, as in job:rate:5m
			return fmt.Errorf("%.200q is not a name of PCP", name)
		}
	}
	return a.names.Add(name, id)
}
