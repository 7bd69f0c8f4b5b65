package reload

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pmcdconf"
)

// rules has the configuration whose access rules are in use.
type rules struct {
	mu   sync.Mutex // held while rules are applied: a call of ApplyRules must not overlap with another
	conf *pmcdconf.Config
}

// applyRules applies the access rules of conf. It returns an error if ctx ends before the
// groups of the clients' users have been looked up.
func (r *Reloader) applyRules(ctx context.Context, conf *pmcdconf.Config) error {
	texts := leftOutTexts(conf.LeftOut)
	r.leftOut.Store(&texts)
	_, err := await(ctx, r, "looks up the groups of users that are connected", func() (none struct{}) {
		r.rules.mu.Lock()
		defer r.rules.mu.Unlock()
		r.rules.conf = conf
		r.cfg.Clients.ApplyRules(conf.Access)
		if conf.Complete != nil {
			go r.completeRules(conf) // ends when the name server has answered, or has not for some seconds
		}
		return none
	})
	return err
}

// completeRules applies the access rules of conf with the addresses of this host's own name, for
// which nothing waits, if conf is still in use then. If that makes a rule contradict another, which
// is a mistake when the addresses are known in time, the rules stay as they are.
//
// C pmcd differs: it waits for the name server.
func (r *Reloader) completeRules(conf *pmcdconf.Config) {
	list, err := conf.Complete()
	r.rules.mu.Lock()
	inUse := r.rules.conf == conf
	if inUse && err == nil && list != nil {
		r.cfg.Clients.ApplyRules(list)
	}
	r.rules.mu.Unlock()
	if inUse && err != nil {
		r.cfg.Log.Warn("rules for localhost are for loopback addresses alone: with those of this host's own name there is a {error}; pmcd -v shows where",
			"error", err, "path", r.cfg.ConfigFile, logtext.Event("conf_mistake"))
	}
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
