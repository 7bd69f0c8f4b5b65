package pmapi

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/xdg-go/scram"

	"github.com/gopcp/pmcd/pdu"
)

// methods are the SASL methods that a client can use, the best first.
var methods = []string{"SCRAM-SHA-256", "PLAIN", "LOGIN"}

// ErrNoMethod is the error if pmcd and the client have no SASL method in common. A client
// does not use PLAIN or LOGIN on a connection that others can read, unless the host
// specification names it.
var ErrNoMethod = errors.New("no method to log in")

// logIn logs in by SASL. Whether a login without a last word from pmcd was successful is for
// conn.accepted to tell.
func (n *conn) logIn(s Spec) error {
	b, err := n.recvSASL()
	if err != nil {
		return err
	}
	method, err := chooseMethod(s, strings.Fields(string(b)), n.private)
	if err != nil {
		return err
	}
	switch method {
	case "PLAIN":
		return n.sendSASL(method + "\x00" + s.User + "\x00" + s.User + "\x00" + s.Password)
	case "LOGIN":
		return n.logInLogin(s)
	}
	return n.logInSCRAM(s)
}

func chooseMethod(s Spec, offered []string, private bool) (string, error) {
	if s.User == "" {
		return "", fmt.Errorf("%w: pmcd asks for a login, and the host specification has no user", pdu.ErrnoPermission)
	}
	if strings.ContainsRune(s.User+s.Password, 0) {
		return "", errors.New("a NUL in the user or the password")
	}
	if s.Method != "" {
		method := strings.ToUpper(s.Method)
		if !slices.Contains(methods, method) {
			return "", fmt.Errorf("%w: %s is not implemented", ErrNoMethod, method)
		}
		return method, nil // pmcd need not offer it
	}
	for _, m := range methods {
		if slices.ContainsFunc(offered, func(o string) bool { return strings.EqualFold(o, m) }) {
			if m != "SCRAM-SHA-256" && !private {
				return "", fmt.Errorf("%w: pmcd offers %q, which need TLS or to be named", ErrNoMethod, offered)
			}
			return m, nil
		}
	}
	return "", fmt.Errorf("%w: pmcd offers %q", ErrNoMethod, offered)
}

// logInLogin sends the user and the password as pmcd asks for them. Its questions have no
// fixed text.
func (n *conn) logInLogin(s Spec) error {
	if err := n.sendSASL("LOGIN\x00"); err != nil {
		return err
	}
	for _, answer := range []string{s.User, s.Password} {
		if _, err := n.recvSASL(); err != nil {
			return err
		}
		if err := n.sendSASL(answer); err != nil {
			return err
		}
	}
	return nil
}

// logInSCRAM logs in without sending the password (RFC 7677), and checks that pmcd knows it,
// too.
func (n *conn) logInSCRAM(s Spec) error {
	client, err := scram.SHA256.NewClient(s.User, s.Password, "")
	if err != nil {
		return fmt.Errorf("user or password: %w", err)
	}
	conv := client.NewConversation()
	first, err := conv.Step("")
	if err != nil {
		return err
	}
	if err := n.sendSASL("SCRAM-SHA-256\x00" + first); err != nil {
		return err
	}
	for !conv.Done() {
		challenge, err := n.recvSASL()
		if err != nil {
			return err
		}
		if err := checkIterations(string(challenge)); err != nil {
			return n.fail(err)
		}
		response, err := conv.Step(string(challenge))
		if err != nil {
			return n.fail(fmt.Errorf("login: %w", err))
		}
		if err := n.sendSASL(response); err != nil {
			return err
		}
	}
	return nil
}

// maxIterations is how much work pmcd can ask of the client: a second or two of CPU time,
// which no context interrupts. Usual are 4,096.
const maxIterations = 4 << 20

func checkIterations(challenge string) error {
	for field := range strings.SplitSeq(challenge, ",") {
		if text, ok := strings.CutPrefix(field, "i="); ok {
			if i, err := strconv.Atoi(text); err != nil || i > maxIterations {
				return badReply("%.20q iterations in a login", text)
			}
		}
	}
	return nil
}

func (n *conn) sendSASL(s string) error {
	return n.send(&pdu.Attr{Code: pdu.AttrNone, Value: []byte(s)})
}

// recvSASL returns what pmcd sends in a login. It is valid until the next call.
func (n *conn) recvSASL() ([]byte, error) {
	b, typ, err := n.recv()
	if err != nil {
		return nil, err
	}
	var m pdu.Attr
	if typ != pdu.TypeAttr {
		return nil, n.fail(badReply("%v in a login", typ))
	}
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return nil, n.fail(err)
	}
	return m.Value, nil
}
