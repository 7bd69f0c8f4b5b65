package daemon

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// userLabels returns the labels of the context that name the user.
func (c *client) userLabels() string {
	c.t.Helper()
	m, ok := c.do(&pdu.LabelReq{Ident: noIdent, Kind: pdu.LabelContext}).(*pdu.Labels)
	if !ok || len(m.Sets) != 1 {
		c.t.Fatalf("no labels: %+v", m)
	}
	var list []string
	for part := range strings.SplitSeq(strings.Trim(string(m.Sets[0].JSON), "{}"), ",") {
		if strings.Contains(part, "userid") || strings.Contains(part, "groupid") {
			list = append(list, strings.ReplaceAll(part, `"`, ""))
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// The agents, the labels of the context and the table of clients have the user that a client
// has logged in as, and after that nothing of the one before.
func TestPeerLoginIdentity(t *testing.T) {
	other, err := user.Lookup("nobody")
	if err != nil {
		testutil.Missing(t, err)
	}
	h := newLoginHarness(t, nil)
	type records []string
	attrs := func(list ...any) (all records) {
		for i := 0; i < len(list); i += 2 {
			all = append(all, fmt.Sprintf("attr 0 %v=%v", list[i], list[i+1]))
		}
		return all
	}
	const name, uid, gid, pid, container = pdu.AttrUserName, pdu.AttrUserID, pdu.AttrGroupID, pdu.AttrProcessID, pdu.AttrContainer
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			peer, labels := records{}, ""
			fromPeer := int64(-1)
			if network == "unix" {
				peer = attrs(pid, os.Getpid())
				labels, fromPeer = fmt.Sprintf("groupid:%d userid:%d", os.Getgid(), os.Getuid()), int64(os.Getuid())
			}
			with := func(list ...any) records { return append(slices.Clone(peer), attrs(list...)...) }
			none := peer
			if network == "unix" {
				none = with(gid, os.Getgid(), uid, os.Getuid())
			}
			ends := func(list records) records { return append(records{"end 0"}, list...) }
			c, _ := h.greeted(network)
			c = c.in(t)
			check := func(what string, want records, wantLabels string, wantUID int64) {
				t.Helper()
				c.served(what, true) // the agent has been told before that
				c.fetch(id(240, 1))
				got := slices.DeleteFunc(h.agent.Records(), func(s string) bool { return !strings.HasPrefix(s, "attr") && !strings.HasPrefix(s, "end") })
				if !slices.Equal(got, want) {
					t.Errorf("%s: the agent was told %q\nwant %q", what, got, want)
				}
				if got := c.userLabels(); got != wantLabels {
					t.Errorf("%s: labels %q, want %q", what, got, wantLabels)
				}
				if info, ok := h.sessions.Clients.Info(0); !ok || info.UID != wantUID {
					t.Errorf("%s: uid %d in the table of clients, want %d", what, info.UID, wantUID)
				}
			}
			c.creds(0)
			c.send(&pdu.Profile{})
			check("before a login", none, labels, fromPeer)
			c.plain(0, "nobody", "nobody")
			want := with(gid, other.Gid, uid, other.Uid, name, "nobody")
			wantUID := int64(0)
			fmt.Sscan(other.Uid, &wantUID)
			check("as nobody", want, "groupid:"+other.Gid+" userid:"+other.Uid, wantUID)
			c.plain(0, "root", "root")
			check("as root", with(gid, 0, uid, 0, name, "root"), "groupid:0 userid:0", 0)
			c.plain(0, "root", "root")
			check("as root again", nil, "groupid:0 userid:0", 0)
			c.plain(0, "carol", "carol")
			check("unknown to the system", ends(with(name, "carol")), "", -1)
			c.plain(pdu.FeatureContainer, "root", "root")
			c.send(&pdu.Attr{Code: pdu.AttrContainer, Value: []byte("bozo")})
			check("with a container", with(gid, 0, uid, 0, name, "root", container, "bozo"), "groupid:0 userid:0", 0)
			c.plain(pdu.FeatureContainer, "nobody", "nobody")
			c.send(&pdu.Attr{Code: pdu.AttrUserName, Value: []byte("bozo")})
			c.want("no container", "PM_ERR_IPC")
			check("as nobody, without the name of a container", with(gid, other.Gid, uid, other.Uid, name, "nobody", container, "bozo"), "groupid:"+other.Gid+" userid:"+other.Uid, wantUID)
			c.plain(0, "root", "no")
			c.want("wrong password", badAuth)
			check("after a wrong password", ends(append(slices.Clone(none), attrs(container, "bozo")...)), labels, fromPeer)
			c.Conn.Close()
			testutil.Eventually(t, "the client has gone", func() bool { return h.sessions.NumClients() == 0 })
			h.agent.Awaits(t, "end 0")
			h.agent.Records()
		})
	}
}

// TLS, a login and a container in one CREDS, as with pcps://HOST?container=.
func TestPeerLoginAll(t *testing.T) {
	h := newLoginHarness(t, func(c *Config) { c.Security.CredsRequired = true })
	c, _ := h.greeted("tcp")
	c.creds(pdu.FeatureSecure | pdu.FeatureSecureAck | pdu.FeatureAuth | pdu.FeatureContainer)
	c.want("acknowledgement", "0")
	c = c.secured()
	c.mechanisms()
	// What follows the last message of a login may be in the same record.
	c.send(&pdu.Attr{Value: []byte("PLAIN\x00\x00root\x00root")}, &pdu.Attr{Code: pdu.AttrContainer, Value: []byte("bozo")}, &pdu.DescReq{PMID: id(240, 1)})
	c.want("request", pdu.TypeDesc.String())
	if info, _ := h.sessions.Clients.Info(0); info.Container != "bozo" || info.UID != 0 {
		t.Errorf("the table of clients has %+v", info)
	}
	// Between the login and the name of the container the rights are not those of the user before.
	c.plain(pdu.FeatureContainer, "carol", "carol")
	c.send(&pdu.DescReq{PMID: id(240, 1)})
	c.want("no container", "PM_ERR_IPC")
	c.served("without the name of a container", false)
}
