package reload

import (
	"context"
	"fmt"
	"slices"

	"github.com/gopcp/pmcd/pmcdconf"
)

// applyRules applies the access rules of conf. It returns an error if ctx ends before the
// groups of the clients' users have been looked up.
func (r *Reloader) applyRules(ctx context.Context, conf *pmcdconf.Config) error {
	texts := leftOutTexts(conf.LeftOut)
	r.leftOut.Store(&texts)
	_, err := await(ctx, r, "looks up the groups of users that are connected", func() (none struct{}) {
		r.cfg.Clients.ApplyRules(conf.Access)
		return none
	})
	return err
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
// out, and about a reload that is overdue. Any goroutine may call it.
func (r *Reloader) Problems() (texts []string) {
	if p := r.leftOut.Load(); p != nil {
		texts = slices.Clone(*p)
	}
	if late := r.overdue(); late != "" {
		texts = append(texts, late)
	}
	return texts
}
