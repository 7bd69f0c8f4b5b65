package reload

import (
	"fmt"
	"slices"

	"github.com/gopcp/pmcd/pmcdconf"
)

// applyRules applies the access rules of conf.
func (r *Reloader) applyRules(conf *pmcdconf.Config) {
	r.cfg.Clients.ApplyRules(conf.Access)
	texts := leftOutTexts(conf.LeftOut)
	r.leftOut.Store(&texts)
}

// maxLeftOut is the number of lines about rules that are left out. If no name server
// answers, many rules are left out for the same reason.
const maxLeftOut = 5

// leftOutTexts returns lines about access rules that are left out.
func leftOutTexts(list pmcdconf.ErrorList) (texts []string) {
	for _, e := range list[:min(len(list), maxLeftOut)] {
		texts = append(texts, e.Error())
	}
	if n := len(list) - maxLeftOut; n > 0 {
		texts = append(texts, fmt.Sprintf("and %d more access rules are left out: the log has them", n))
	}
	return texts
}

// Problems returns lines about access rules of the current configuration that are left
// out. Any goroutine may call it.
func (r *Reloader) Problems() []string {
	if p := r.leftOut.Load(); p != nil {
		return slices.Clone(*p)
	}
	return nil
}
