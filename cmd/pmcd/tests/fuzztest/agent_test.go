package fuzztest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/pdu"
)

// agentName is the name under which the test program is an agent. Its arguments are a
// domain, the name of the top of its name space, and how it behaves:
//
//	honest          gives correct replies
//	liar [START]    replies as the identifiers in the request say, see lies
//	socket PATH     a liar that listens at a Unix socket
//
// START is how it starts, see starts.
const agentName = "pmdafuzz"

// runAgent is the main function of the agent. It returns the exit code.
func runAgent(args []string) int {
	if len(args) < 3 { // the line of pmcd.conf was cut
		return 2
	}
	domain, err := strconv.Atoi(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	a := &agent{domain: domain, name: args[1]}
	stdio := struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout}
	switch {
	case args[2] == "honest":
		err = serve.Serve(context.Background(), a, stdio)
	case args[2] == "liar":
		err = (&liar{agent: a, in: os.Stdin, out: os.Stdout}).run(args[3:]...)
	case args[2] == "socket" && len(args) > 3 && strings.HasSuffix(args[3], liarSocket):
		err = listenOnce(a, args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// liarSocket is the path of the socket of a liar, in the directory of the episode.
const liarSocket = "agents/liar.sock"

// listenOnce serves the first client of a Unix socket.
func listenOnce(a *agent, path string) error {
	os.Remove(path)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o777); err != nil { // pmcd is another user
		return err
	}
	conn, err := l.AcceptUnix()
	if err != nil {
		return err
	}
	l.Close()
	f, err := conn.File() // blocks, as standard input does
	if err != nil {
		return err
	}
	conn.Close()
	return (&liar{agent: a, in: f, out: f}).run()
}

// An agent has the metrics
//
//	NAME.word.ITEM       DOMAIN:CLUSTER:ITEM, for an even CLUSTER
//	NAME.insts.ITEM      DOMAIN:CLUSTER:ITEM, for an odd one: it has instances
//	NAME.dyn.C.I         DOMAIN:C:I, in a dynamic part of the name space
//
// whose values follow from the PMID and the instance. Cluster and item are what a
// liar takes its lie from, as it does from serial numbers of instance domains.
type agent struct {
	domain int
	name   string
}

var _ interface {
	agents.Agent
	agents.Instancer
	agents.Texter
	agents.Storer
	agents.Namer
	agents.Labeler
	agents.AttrSetter
	agents.ContextEnder
} = (*agent)(nil)

// instances is the number of instances of an instance domain.
const instances = 5

// word returns the value of a metric.
func word(id pdu.PMID, inst int32) uint32 { return uint32(id)*2654435761 + uint32(inst)*40503 }

// desc returns the descriptor of a metric.
func desc(id pdu.PMID) pdu.Desc {
	d := pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}
	if id.Cluster()%2 == 1 {
		d.InDom = pdu.NewInDom(id.Domain(), id.Cluster()<<10|id.Item())
	}
	return d
}

// instName returns the name of an instance.
func instName(indom pdu.InDom, inst int) string { return fmt.Sprintf("%v-%d", indom, inst) }

func (a *agent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	return desc(id), nil
}

func (a *agent) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		w.Begin(id)
		d := desc(id)
		if d.InDom == pdu.NoInDom {
			w.Word(pdu.NoInst, word(id, pdu.NoInst))
			continue
		}
		p := r.Profile.For(d.InDom)
		for i := range int32(instances) {
			if p.Includes(i) {
				w.Word(i, word(id, i))
			}
		}
	}
	return nil
}

func (a *agent) Instances(_ context.Context, _ agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	insts := make([]pdu.Inst, instances)
	for i := range insts {
		insts[i] = pdu.Inst{ID: int32(i), Name: instName(indom, i)}
	}
	return insts, nil
}

// text returns the help text of a metric or an instance domain.
func text(ident any, oneline bool) string {
	return fmt.Sprintf("help of %v, oneline %v", ident, oneline)
}

func (a *agent) Text(_ context.Context, _ agents.Origin, id pdu.PMID, oneline bool) (string, error) {
	return text(id, oneline), nil
}

func (a *agent) InDomText(_ context.Context, _ agents.Origin, indom pdu.InDom, oneline bool) (string, error) {
	return text(indom, oneline), nil
}

func (a *agent) Store(context.Context, agents.Origin, *pdu.Result) error { return nil }

// dynName returns the name of a metric in the dynamic part.
func (a *agent) dynName(id pdu.PMID) string {
	return fmt.Sprintf("%s.dyn.%d.%d", a.name, id.Cluster(), id.Item())
}

func (a *agent) PMID(_ context.Context, _ agents.Origin, name string) (pdu.PMID, error) {
	var cluster, item int
	rest, ok := strings.CutPrefix(name, a.name+".dyn.")
	if _, err := fmt.Sscanf(rest, "%d.%d", &cluster, &item); !ok || err != nil || cluster < 0 || cluster > 4095 || item < 0 || item > 1023 {
		return 0, pdu.ErrnoName
	}
	return pdu.NewPMID(a.domain, cluster, item), nil
}

func (a *agent) Names(_ context.Context, _ agents.Origin, id pdu.PMID) ([]string, error) {
	return []string{a.dynName(id)}, nil
}

func (a *agent) Children(_ context.Context, _ agents.Origin, name string) ([]pdu.Child, error) {
	return []pdu.Child{{Name: "0", Leaf: strings.Count(name, ".") == 2}, {Name: "1"}}, nil
}

func (a *agent) Traverse(_ context.Context, _ agents.Origin, name string) ([]string, error) {
	if id, err := a.PMID(context.Background(), agents.Origin{}, name); err == nil {
		return []string{a.dynName(id)}, nil
	}
	var names []string
	for i := range 3 {
		names = append(names, a.dynName(pdu.NewPMID(a.domain, 0, i)))
	}
	return names, nil
}

func (a *agent) Labels(_ context.Context, _ agents.Origin, kind pdu.LabelKind, ident uint32) ([]pdu.LabelSet, error) {
	s, err := pdu.NewLabelSet(pdu.NoInst, kind, pdu.NamedLabel{Name: "fuzz", Value: strconv.Itoa(int(ident))})
	return []pdu.LabelSet{s}, err
}

func (a *agent) SetAttr(int32, pdu.Attr) {}
func (a *agent) EndContext(int32)        {}

// An external is an agent that pmcd connects to and does not start.
type external struct {
	agent    agent
	listener net.Listener
	tasks    sync.WaitGroup

	mu    sync.Mutex // guards the following
	conns []net.Conn
}

// listenExternal starts the agent at a Unix socket.
func listenExternal(a agent, path string) (*external, error) {
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o777)
	}
	if err != nil {
		return nil, err
	}
	x := &external{agent: a, listener: l}
	x.tasks.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			x.mu.Lock()
			x.conns = append(x.conns, conn)
			x.mu.Unlock()
			x.tasks.Go(func() { serve.Serve(context.Background(), &x.agent, conn) })
		}
	})
	return x, nil
}

// disconnect closes all connections.
func (x *external) disconnect() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, conn := range x.conns {
		conn.SetDeadline(time.Now())
		conn.Close()
	}
	x.conns = nil
}

func (x *external) close() {
	x.listener.Close()
	x.disconnect()
	x.tasks.Wait()
}
