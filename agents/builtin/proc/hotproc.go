package proc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// hotprocs are the metrics below hotproc: those of proc, for the processes that
// matched a predicate in the sampler's last scan.
type hotprocs struct {
	*host
	indom       *processIndom
	source      *pmda.Source
	predicate   *predicate // nil if there is none: no process is hot
	generation  uint32     // number of predicates so far; 0 without a predicate
	interval    time.Duration
	hot         atomic.Pointer[hotSet] // set by the sampler, never nil
	stopSampler func()                 // stops the sampler, and waits for its end
}

func newHotprocs(h *host) *hotprocs {
	s := &hotprocs{host: h, indom: newProcessIndom(&h.tree), interval: 10 * time.Second, stopSampler: func() {}}
	s.restartSampler()
	s.source = &pmda.Source{Read: s.find}
	return s
}

// loadConf reads the file with the predicate, if there is one.
func (s *hotprocs) loadConf() {
	path := s.HotConf
	if path == "" {
		dir, _ := pcpconf.Dir("PCP_PMDAS_DIR")
		path = filepath.Join(dir, "proc", "hotproc.conf")
	}
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var b []byte
	switch {
	case err != nil:
	case st.Mode()&0o002 != 0:
		err = errors.New("writable by all users")
	default:
		b, err = regular.ReadFile(path, maxPredicate)
	}
	if err == nil {
		err = s.setPredicate(string(b))
	}
	if err != nil {
		s.Log.Warn("{agent}: {path} is ignored: {error}", "path", path, "error", err)
	}
}

// setPredicate parses and uses a predicate. An empty text removes the predicate.
func (s *hotprocs) setPredicate(text string) error {
	p, err := parsePredicate(text)
	if err != nil {
		return err
	}
	if s.predicate = p; p == nil {
		s.generation = 0
	} else {
		s.generation++
	}
	s.restartSampler()
	return nil
}

// restartSampler stops the sampler, and starts it for the present predicate and
// interval, if there is a predicate.
func (s *hotprocs) restartSampler() {
	s.stopSampler()
	s.stopSampler = func() {}
	if s.predicate == nil {
		s.hot.Store(&hotSet{totals: new(totals)})
		return
	}
	s.hot.Store(new(hotSet))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	sampler, predicate, interval := newSampler(s.host), s.predicate, s.interval
	go func() {
		defer close(done)
		sampler.run(ctx, predicate, interval, s.hot.Store)
	}()
	s.stopSampler = func() {
		cancel()
		<-done
	}
}

// find lists the hot processes that still exist. As in pmdaproc, clients that have
// chosen a container get those of the host, too.
func (s *hotprocs) find(ctx context.Context, r *pmda.Request) error {
	if err := r.ReadSource(ctx, s.container); err != nil {
		return err
	}
	if r.Profile == nil && !s.mayReadProcesses {
		return pdu.ErrnoPermission // a request for instances
	}
	s.indom.threads, _ = s.listSettings(r.Client())
	hot := s.hot.Load()
	if err := s.indom.updateList(r, hot.pids); err != nil {
		return err
	}
	s.indom.list = slices.DeleteFunc(s.indom.list, func(p *process) bool {
		if r.Err() != nil {
			return true // the list is not used
		}
		stat := p.record(formatStat)
		if !stat.ok() { // with hidepid=1 not all users may read it
			return !s.Path("/proc/").Num(p.id).Exists()
		}
		scanned, ok := hot.samples[p.id]
		return ok && stat.num(statStart) != scanned.start // another process has its number
	})
	if !s.indom.threads || r.Err() != nil {
		return r.Err()
	}
	s.indom.pids = s.indom.pids[:0]
	for _, p := range s.indom.list {
		s.indom.pids = append(s.indom.pids, p.id)
	}
	err := s.indom.addThreads()
	if err == nil {
		err = s.indom.updateList(r, s.indom.sortedPIDs())
	}
	return err
}

// forRoot returns a StoreFunc for exactly one value, which only root may store.
func forRoot(f func(v pmda.StoredValue) error) pmda.StoreFunc {
	return pmda.RootOnly(func(_ context.Context, _ *pmda.Request, s *pmda.Stored) error {
		v, err := singleValue(s)
		if err != nil {
			return err
		}
		return f(v)
	})
}

func (s *hotprocs) storeRefresh(v pmda.StoredValue) error {
	n, err := v.AsUint32()
	switch {
	case err != nil:
		return err
	case n == 0:
		return pdu.ErrnoBadStore
	}
	s.interval = time.Duration(n) * time.Second
	s.restartSampler()
	return nil
}

func (s *hotprocs) storeConfig(v pmda.StoredValue) error {
	text, err := v.AsString()
	if err == nil && s.setPredicate(text) != nil {
		err = pdu.ErrnoBadStore
	}
	return err
}

func (s *hotprocs) storeReload(v pmda.StoredValue) error {
	if _, err := v.AsUint32(); err != nil {
		return err
	}
	s.loadConf()
	return nil
}

// hotClusters maps clusters of proc to those of hotproc.
var hotClusters = map[int]int{8: 52, 9: 53, 11: 54, 12: 55, 24: 56, 31: 57, 32: 58, 33: 34, 51: 59, 62: 63, 69: 71, 72: 73, 74: 75, 77: 78, 79: 80}

func (s *hotprocs) metrics() []pmda.Metric {
	// A client that may not see processes gets an error if any process is hot.
	source := &pmda.Source{Read: func(ctx context.Context, r *pmda.Request) error {
		if err := r.ReadSource(ctx, s.source); err != nil || len(s.indom.list) == 0 {
			return err
		}
		return s.checkMayRead()
	}}
	total := func(f func(t totals) float64) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			if t := s.hot.Load().totals; t != nil {
				v.SetFloat(f(*t))
			}
			return nil
		}
	}
	variable := func(i int) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			if x := s.hot.Load().varsOf(v.Inst()); x != nil && x.unknown>>i&1 == 0 {
				v.SetFloat(x.nums[i])
			}
			return nil
		}
	}
	indom := s.indom.pmdaInDom(indomHot, source)
	ms := table(pmda.Metric{}, []row{
		{60, 1, "hotproc.control.refresh", u32, instant, none, pmda.FromUint(func() (uint64, bool) { return uint64(s.interval / time.Second), true })},
		{60, 8, "hotproc.control.config", str, instant, none, func(_ context.Context, v *pmda.Value) error {
			text := ""
			if s.predicate != nil {
				text = s.predicate.text
			}
			v.SetString(text)
			return nil
		}},
		{60, 10, "hotproc.control.reload_config", u32, instant, none, pmda.FromUint(func() (uint64, bool) { return 0, true })},
		{60, 9, "hotproc.control.config_gen", u32, instant, none, pmda.FromUint(func() (uint64, bool) { return uint64(s.generation), true })},
		{60, 2, "hotproc.total.cpuidle", float, instant, none, total(func(t totals) float64 { return t.idle })},
		{60, 3, "hotproc.total.cpuburn", float, instant, none, total(func(t totals) float64 { return t.hot })},
		{60, 4, "hotproc.total.cpuother.transient", float, instant, none, total(func(t totals) float64 { return t.transient })},
		{60, 5, "hotproc.total.cpuother.not_cpuburn", float, instant, none, total(func(t totals) float64 { return t.cold })},
		{60, 6, "hotproc.total.cpuother.total", float, instant, none, total(func(t totals) float64 { return t.cold + t.transient })},
		{60, 7, "hotproc.total.cpuother.percent", float, instant, none, total(func(t totals) float64 {
			other := t.cold + t.transient
			if other+t.hot == 0 {
				return 0
			}
			return other / (other + t.hot) * 100
		})},
	})
	ms[0].Store, ms[1].Store, ms[2].Store = forRoot(s.storeRefresh), forRoot(s.storeConfig), forRoot(s.storeReload)
	return slices.Concat(
		ms,
		s.processMetrics("hotproc.", indom, hotClusters),
		table(pmda.Metric{Source: s.source}, []row{
			{52, 99, "hotproc.nprocs", u32, instant, none, pmda.FromUint(func() (uint64, bool) { return uint64(len(s.indom.list)), true })},
		}),
		table(pmda.Metric{InDom: indom}, []row{
			{61, 1, "hotproc.predicate.ctxswitch", float, instant, countSec, variable(varSwitches)},
			{61, 2, "hotproc.predicate.virtualsize", u32, instant, kbyte, variable(varVirtual)},
			{61, 3, "hotproc.predicate.residentsize", u32, instant, kbyte, variable(varResident)},
			{61, 4, "hotproc.predicate.iodemand", float, instant, kbyteSec, variable(varIO)},
			{61, 5, "hotproc.predicate.iowait", float, instant, none, variable(varIOWait)},
			{61, 6, "hotproc.predicate.schedwait", float, instant, none, variable(varSchedWait)},
			{61, 7, "hotproc.predicate.cpuburn", float, instant, none, variable(varCPU)},
		}),
	)
}
