package pmcd

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

func TestInstances(t *testing.T) {
	h := newHost()
	for _, domain := range []int{2, 99} {
		a := New(domain, "pmcd", h, Config{})
		for _, tt := range []struct {
			serial int
			want   string
		}{
			{1, ""},
			{2, "0=0 1=1 2=2 3=3 4=4 5=5 6=6 7=7 8=8 9=9 10=10 11=11 12=12 13=13 14=14 15=15"},
			{3, "60=linux 2=pmcd 30=sampledso 11=sock"},
			{4, ""},
			{5, "12=0012 20=0020 1024=1024 2048=2048 4196=4196 8192=8192 8193=8192+"},
			{6, "0=0 7=7 9=9"},
		} {
			list, err := a.Instances(context.Background(), agents.Origin{}, pdu.NewInDom(domain, tt.serial))
			var got []string
			for _, in := range list {
				got = append(got, fmt.Sprintf("%d=%s", in.ID, in.Name))
			}
			if err != nil || strings.Join(got, " ") != tt.want {
				t.Errorf("Instances(%d.%d) = %q, %v; want %q", domain, tt.serial, got, err, tt.want)
			}
		}
		for _, indom := range []pdu.InDom{pdu.NewInDom(domain, 0), pdu.NewInDom(domain, 7), pdu.NewInDom(3, 3), pdu.NoInDom} {
			if _, err := a.Instances(context.Background(), agents.Origin{}, indom); err != pdu.ErrnoInDom {
				t.Errorf("Instances(%v) = %v", indom, err)
			}
		}
	}
}

// The instances of clients need no more than their numbers: each client can ask for all.
func TestInstancesOfClients(t *testing.T) {
	h := newHost()
	if _, err := New(2, "pmcd", h, Config{}).Instances(context.Background(), agents.Origin{}, pdu.NewInDom(2, 6)); err != nil {
		t.Fatal(err)
	}
	if n := h.snapshots.Load(); n != 0 {
		t.Errorf("%d snapshots of all that is known of the clients, want 0", n)
	}
}

// TestProfiles fetches a metric of each instance domain with profiles that select
// no, one, some and all instances.
func TestProfiles(t *testing.T) {
	a := New(2, "pmcd", newHost(), pcpConfig(t))
	for _, name := range []string{
		"pmcd.pmlogger.port", "pmcd.control.register", "pmcd.agent.status",
		"pmcd.pmie.numrules", "pmcd.buf.alloc", "pmcd.buf.free", "pmcd.client.whoami", "pmcd.client.start_date",
	} {
		m := pmidOf(t, name)
		d, _ := a.Desc(context.Background(), agents.Origin{}, m)
		list, err := a.Instances(context.Background(), agents.Origin{}, d.InDom)
		if err != nil || len(list) < 2 {
			t.Fatalf("%v: %v, %v", d.InDom, list, err)
		}
		one := list[1].ID
		for _, tt := range []struct {
			profile  pdu.Profile
			one, all bool // whether it selects instance one, and all other instances
		}{
			{pdu.Profile{}, true, true},
			{pdu.Profile{Exclude: true}, false, false},
			{pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: d.InDom, Insts: []int32{one}}}}, false, true},
			{pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: d.InDom, Exclude: true, Insts: []int32{one}}}}, true, false},
			{pdu.Profile{Exclude: true, InDoms: []pdu.InDomProfile{{InDom: d.InDom}}}, true, true},
			{pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: d.InDom, Exclude: true}}}, false, false},
			{pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: pdu.NewInDom(3, 1), Exclude: true}}}, true, true},
			{pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: d.InDom, Exclude: true, Insts: []int32{-5, 1 << 30}}}}, false, false},
		} {
			want := map[int32]bool{}
			for _, in := range list {
				if in.ID == one && tt.one || in.ID != one && tt.all {
					want[in.ID] = true
				}
			}
			got := map[int32]bool{}
			for _, v := range values(t, a, root, &tt.profile, m) {
				got[v.inst] = true
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, profile %+v: got %v, want %v", name, tt.profile, got, want)
			}
		}
	}
}
