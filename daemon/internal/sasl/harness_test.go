package sasl_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/saslhelper"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// A harness is a Host with a helper, and the configuration of libsasl2.
type harness struct {
	*sasl.Host
	t   *testing.T
	dir string // has pmcd.conf and the database
	log *logtest.Log

	procs []sasl.Process // helpers that were started, without those that probe
}

const password = "correct horse"

// newHarness makes a harness with the users alice and bob. conf is pmcd.conf; DIR in it is
// the directory.
func newHarness(t *testing.T, conf string, change func(*sasl.Options, *saslhelper.Options)) *harness {
	t.Helper()
	testutil.NeedPeer(t, "saslpasswd2")
	testutil.CheckLeaks(t)
	h := &harness{t: t, dir: t.TempDir()}
	h.configure(conf)
	for _, user := range []string{"alice", "bob"} {
		cmd := exec.Command("saslpasswd2", "-c", "-p", "-f", h.dir+"/sasldb2", user)
		cmd.Stdin = strings.NewReader(password)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("saslpasswd2: %v\n%s", err, out)
		}
	}
	ho := saslhelper.Options{Env: []string{"SASL_CONF_PATH=" + h.dir}}
	log, lines := logtest.NewLog()
	h.log = lines
	opt := sasl.Options{Log: diag.NewLogLimiter(log)}
	if change != nil {
		change(&opt, &ho)
	}
	if opt.Start == nil {
		opt.Start = func(sock *os.File, probe bool) (sasl.Process, error) {
			p, err := saslhelper.Start(ho, sock, probe)
			if err != nil {
				return nil, err
			}
			if !probe {
				h.procs = append(h.procs, p)
			}
			return p, nil
		}
	}
	needHelper(t)
	h.Host = sasl.New(opt)
	t.Cleanup(func() {
		h.Close()
		for _, p := range h.procs {
			if testutil.Running(p.PID()) {
				t.Errorf("helper %d runs", p.PID())
			}
		}
	})
	return h
}

// needHelper is for a test with a helper, which needs cgo.
func needHelper(t testing.TB) {
	t.Helper()
	if !saslhelper.Supported {
		testutil.Missing(t, saslhelper.ErrUnsupported)
	}
}

const database = "sasldb_path: DIR/sasldb2\n"

func (h *harness) configure(conf string) {
	h.t.Helper()
	conf = strings.ReplaceAll(conf, "DIR", h.dir)
	if err := os.WriteFile(filepath.Join(h.dir, "pmcd.conf"), []byte(conf), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// login returns a Login from an address.
func login(addr string) sasl.Login {
	return sasl.Login{Key: fairqueue.Key{Group: fairqueue.Group{ID: uint64(len(addr))}}}
}

// begin begins a login, which must be possible.
func (h *harness) begin(l sasl.Login) *sasl.Exchange {
	h.t.Helper()
	e, _, err := h.Begin(h.t.Context(), l)
	if err != nil {
		h.t.Fatalf("Begin: %v\n%v", err, h.log.All())
	}
	h.t.Cleanup(e.Close)
	return e
}

// plain is the message of a client that logs in by PLAIN.
func plain(user, password string) string { return "PLAIN\x00\x00" + user + "\x00" + password }

// logIn logs in, from an address of its own, with messages that are known beforehand. It
// returns the last challenge and the result.
func (h *harness) logIn(messages ...string) (challenges []string, user string, err error) {
	h.t.Helper()
	return h.logInFrom(login(h.t.Name()), messages...)
}

func (h *harness) logInFrom(l sasl.Login, messages ...string) (challenges []string, user string, err error) {
	ctx, cancel := context.WithTimeout(h.t.Context(), testutil.Hangs)
	defer cancel()
	e, _, err := h.Begin(ctx, l)
	if err != nil {
		return nil, "", err
	}
	defer e.Close()
	for _, m := range messages {
		challenge, done, user, err := e.Step(ctx, []byte(m))
		if done || err != nil {
			return challenges, user, err
		}
		challenges = append(challenges, string(challenge))
	}
	return challenges, "", errors.New("more messages are needed")
}

// code returns the PCP error code in err; 0 if there is none.
func code(err error) pdu.Errno {
	var c pdu.Errno
	errors.As(err, &c)
	return c
}
