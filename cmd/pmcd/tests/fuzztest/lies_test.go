package fuzztest

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/relay"
	"github.com/gopcp/pmcd/pdu"
)

// A liar stands between pmcd and an agent that replies correctly, and replaces replies.
// The cluster of a PMID says how, and the item is the seed of what else is random about
// the lie; the serial number of an instance domain has both.
type liar struct {
	*agent
	in, out *os.File // pmcd
	held    []byte   // a reply that is sent after the next one
}

// A lie replaces a reply. The reply is a correct one.
type lie struct {
	name  string
	rare  bool // the agent is late, not ready or disconnected after it
	reply func(l *liar, reply []byte, rnd *rand.Rand)
}

// lateTime is longer than pmcd waits for a reply.
const lateTime = requestTimeout + 300*time.Millisecond

var lies = []lie{
	{"none", false, func(l *liar, b []byte, _ *rand.Rand) { l.send(b) }},
	{"dribbles", false, func(l *liar, b []byte, rnd *rand.Rand) {
		for len(b) > 0 {
			n := min(len(b), 1+rnd.IntN(20))
			l.send(b[:n])
			b = b[n:]
			if rnd.IntN(4) == 0 {
				time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
			}
		}
	}},
	{"state change", false, func(l *liar, b []byte, rnd *rand.Rand) {
		if _, t, _ := pdu.Header(b); t == pdu.TypeResult {
			relay.SetResultTime(b, rnd.Int32N(128), 0)
		}
		l.send(b)
	}},
	{"error code", false, func(l *liar, b []byte, rnd *rand.Rand) {
		l.sendError(pick(rnd, 0, 1, -1, -12345, -12358, -12386, -12389, -12411, -13393, 1<<30, -1<<31, pdu.Errno(rnd.Int32())))
	}},
	{"writes to stderr", false, func(l *liar, b []byte, rnd *rand.Rand) {
		os.Stderr.WriteString(strings.Repeat(strings.Repeat("x", rnd.IntN(200))+"\n", rnd.IntN(400)))
		l.send(b)
	}},
	{"large reply", false, func(l *liar, b []byte, rnd *rand.Rand) {
		if _, t, _ := pdu.Header(b); t == pdu.TypeResult {
			if _, m, err := pdu.Parse(b); err == nil {
				r := m.(*pdu.Result)
				r.Sets[0].Format = pdu.FormatBlock
				r.Sets[0].Values = []pdu.Value{{Inst: pdu.NoInst, Type: pdu.MetricAggregate, Block: make([]byte, rnd.IntN(2<<20))}}
				b, _ = pdu.Append(nil, 0, r)
			}
		}
		l.send(b)
	}},
	{"ready", false, func(l *liar, b []byte, _ *rand.Rand) { l.sendError(pdu.ErrnoReady); l.send(b) }},

	{"late", true, func(l *liar, b []byte, _ *rand.Rand) { time.Sleep(lateTime); l.send(b) }},
	{"not ready for a while", true, func(l *liar, _ []byte, rnd *rand.Rand) {
		l.sendError(pdu.ErrnoNotReady)
		time.Sleep(time.Duration(rnd.IntN(500)) * time.Millisecond)
		l.sendError(pdu.ErrnoReady)
	}},
	{"not ready, exits", true, func(l *liar, _ []byte, rnd *rand.Rand) { // pmcd would wait for ever
		l.sendError(pdu.ErrnoNotReady)
		time.Sleep(time.Duration(rnd.IntN(2000)) * time.Millisecond)
		os.Exit(0)
	}},
	{"never", true, func(*liar, []byte, *rand.Rand) {}},
	{"hangs", true, func(*liar, []byte, *rand.Rand) { select {} }},
	{"twice", true, func(l *liar, b []byte, _ *rand.Rand) { l.send(b); l.send(b) }},
	{"out of order", true, func(l *liar, b []byte, _ *rand.Rand) { l.held = b }},
	{"other type", true, func(l *liar, b []byte, rnd *rand.Rand) {
		binary.BigEndian.PutUint32(b[4:], 0x7000+rnd.Uint32N(0x20))
		l.send(b)
	}},
	{"other identifiers", true, func(l *liar, b []byte, rnd *rand.Rand) {
		for at := pdu.HeaderLen; at+4 <= len(b); at += 4 {
			if w := binary.BigEndian.Uint32(b[at:]); w>>22&0x1ff == uint32(l.domain) && rnd.IntN(2) == 0 {
				binary.BigEndian.PutUint32(b[at:], w^1<<rnd.IntN(31))
			}
		}
		l.send(b)
	}},
	{"fewer or more sets", true, func(l *liar, b []byte, rnd *rand.Rand) {
		if _, m, err := pdu.Parse(b); err == nil {
			if r, ok := m.(*pdu.Result); ok && rnd.IntN(2) == 0 {
				r.Sets = r.Sets[1:]
			} else if ok {
				r.Sets = append(r.Sets, r.Sets...)
			}
			b, _ = pdu.Append(nil, 0, m)
		}
		l.send(b)
	}},
	{"other length", true, func(l *liar, b []byte, rnd *rand.Rand) {
		n := int32(len(b))
		binary.BigEndian.PutUint32(b, uint32(pick(rnd, 0, 1, 11, 12, -1, 1<<31-1, -1<<31, 1<<20, n-4, n+4, n-1, n+1, rnd.Int32N(100))))
		l.send(b)
	}},
	{"mutated", true, func(l *liar, b []byte, rnd *rand.Rand) { l.send(mutate(rnd, b)) }},
	{"random bytes", true, func(l *liar, _ []byte, rnd *rand.Rand) { l.send(randomBytes(rnd, 4096)) }},
	{"flood", true, func(l *liar, b []byte, rnd *rand.Rand) {
		for range rnd.IntN(500) {
			l.send(b)
		}
	}},
	{"cut", true, func(l *liar, b []byte, rnd *rand.Rand) { l.send(b[:rnd.IntN(len(b))]); os.Exit(rnd.IntN(4)) }},
	{"exits", true, func(_ *liar, _ []byte, rnd *rand.Rand) { os.Exit(rnd.IntN(4)) }},
	{"is killed", true, func(_ *liar, _ []byte, rnd *rand.Rand) {
		syscall.Kill(os.Getpid(), pick(rnd, syscall.SIGKILL, syscall.SIGTERM))
		select {}
	}},
	{"closes output", true, func(l *liar, _ []byte, _ *rand.Rand) { l.out.Close() }},
	{"closes input", true, func(l *liar, _ []byte, _ *rand.Rand) { l.in.Close(); time.Sleep(lateTime) }},
	{"leaves a child", true, func(l *liar, _ []byte, _ *rand.Rand) {
		cmd := exec.Command("sleep", "2") // it keeps the pipes open
		cmd.Stdin, cmd.Stdout, cmd.Stderr = l.in, l.out, os.Stderr
		cmd.Start()
		os.Exit(0)
	}},
}

// rareMark is set in the item of a PMID, or in the serial number of an instance domain,
// if a lie that is rare may be told: mutated requests do not have the liars always down.
const rareMark = 3

// rareLies are the indexes of lies that are rare.
func rareLies() (rare []int) {
	for i, l := range lies {
		if l.rare {
			rare = append(rare, i)
		}
	}
	return rare
}

// starts are how a liar can start.
var starts = map[string]func(l *liar) bool{ // false: without the version exchange
	"slow":     func(*liar) bool { time.Sleep(time.Second); return true },
	"silent":   func(*liar) bool { time.Sleep(2 * handshakeTimeout); return false },
	"exits":    func(*liar) bool { os.Exit(1); return false },
	"garbage":  func(l *liar) bool { l.send(randomBytes(newGenerator().Rand, 4096)); return false },
	"notready": func(l *liar) bool { return true },
}

// run serves pmcd until the stream ends. start is a key of starts or nothing.
func (l *liar) run(start ...string) error {
	how := strings.Join(start, " ")
	if f := starts[how]; f != nil && !f(l) {
		return nil
	}
	inner, conn := net.Pipe()
	go serve.Serve(context.Background(), l.agent, conn)
	replies, requests := pdu.NewReader(inner, 0), pdu.NewReader(l.in, 0)
	creds, err := replies.Next()
	if err != nil {
		return err
	}
	l.send(creds)
	for first := true; ; first = false {
		b, err := requests.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := inner.Write(b); err != nil {
			return err
		}
		if first && how == "notready" {
			time.Sleep(300 * time.Millisecond)
			l.sendError(pdu.ErrnoReady)
		}
		ident, requested, err := l.ident(b)
		if err != nil {
			return err
		}
		if !requested {
			continue
		}
		reply, err := replies.Next()
		if err != nil {
			return err
		}
		l.tell(int(ident&(1<<22-1)), slices.Clone(reply))
	}
}

// ident returns what the request b is for, as far as that tells how to lie, and whether
// b has a reply at all.
func (l *liar) ident(b []byte) (ident uint32, requested bool, err error) {
	_, m, err := pdu.Parse(b)
	if err != nil {
		return 0, false, err
	}
	switch m := m.(type) {
	case *pdu.Fetch:
		return uint32(m.PMIDs[0]), true, nil
	case *pdu.DescReq:
		return uint32(m.PMID), true, nil
	case *pdu.InstanceReq:
		return uint32(m.InDom), true, nil
	case *pdu.TextReq:
		return m.Ident, true, nil
	case *pdu.LabelReq:
		if m.Kind == pdu.LabelDomain || m.Kind == pdu.LabelContext {
			return 0, true, nil
		}
		return m.Ident, true, nil
	case *pdu.Result:
		if len(m.Sets) == 0 {
			return 0, true, nil
		}
		return uint32(m.Sets[0].PMID), true, nil
	case *pdu.PMNSIDs:
		return uint32(m.PMIDs[0]), true, nil
	case *pdu.PMNSNames:
		return l.nameIdent(m.Names[0]), true, nil
	case *pdu.PMNSChild:
		return l.nameIdent(m.Name), true, nil
	case *pdu.PMNSTraverse:
		return l.nameIdent(m.Name), true, nil
	}
	return 0, false, nil
}

// tell sends a reply or lies in place of it. how has the lie, and the seed.
func (l *liar) tell(how int, reply []byte) {
	held := l.held
	l.held = nil
	lie := lies[how>>10%len(lies)]
	if lie.rare && how&rareMark != rareMark {
		lie = lies[0]
	}
	if lie.rare {
		_, t, _ := pdu.Header(reply)
		fmt.Fprintf(os.Stderr, "lies about %v: %s\n", t, lie.name)
	}
	lie.reply(l, reply, newGenerator(how).Rand)
	if held != nil {
		l.send(held)
	}
}

// nameIdent returns the PMID of a name.
func (l *liar) nameIdent(name string) uint32 {
	id, _ := l.PMID(context.Background(), agents.Origin{}, name)
	return uint32(id)
}

func (l *liar) send(b []byte) { l.out.Write(b) }

func (l *liar) sendError(code pdu.Errno) {
	b, _ := pdu.Append(nil, 0, &pdu.Error{Code: code})
	l.send(b)
}
