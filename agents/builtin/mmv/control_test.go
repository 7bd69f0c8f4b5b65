package mmv

import (
	"errors"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

func TestReload(t *testing.T) {
	dir := t.TempDir()
	one(1).Write(t, dir, "f")
	c := newClient(t, dir)
	c.debug = []string{"appl0"}
	reload := c.id("mmv.control.reload")
	c.changed("before", false)
	if err := c.store(reload, pdu.Value{Inst: pdu.NoInst, Word: 5}); err != nil {
		t.Fatal(err)
	}
	if c.reload != 5 {
		t.Error(c.reload)
	}
	c.changed("a reload", true)
	c.want(map[string]string{"mmv.control.reload": "0", "mmv.f.m": "1"})
	if !strings.Contains(c.log.String(), "1 files, 1 metrics") {
		t.Errorf("log: %s", &c.log)
	}
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	one(1).Write(t, dir, "f")
	c := newClient(t, dir)
	word := pdu.Value{Inst: pdu.NoInst, Word: 1}
	str := func(s string) pdu.Value {
		return pdu.Value{Inst: pdu.NoInst, Type: pdu.MetricString, Block: []byte(s + "\x00")}
	}
	debug := pdu.NewPMID(70, 0, 1)
	for _, tt := range []struct {
		id     pdu.PMID
		values []pdu.Value
		want   error
		debug  string
	}{
		{debug, []pdu.Value{str("pdu,appl0")}, nil, `"appl0,pdu"`},
		{debug, []pdu.Value{str("APPL1")}, nil, `"appl1"`},
		{debug, []pdu.Value{str("appl0,nosuch")}, pdu.ErrnoConv, `""`},
		{debug, []pdu.Value{str("appl2")}, nil, `"appl2"`},
		{debug, []pdu.Value{word}, pdu.ErrnoConv, `""`},
		{debug, []pdu.Value{str("")}, nil, `""`},
		{debug, nil, pdu.ErrnoBadStore, `""`},
		{debug, []pdu.Value{str("pdu"), str("pdu")}, pdu.ErrnoBadStore, `""`},
		{pdu.NewPMID(70, 0, 0), []pdu.Value{str("1")}, pdu.ErrnoConv, ""},
		{pdu.NewPMID(70, 0, 0), []pdu.Value{word, word}, pdu.ErrnoBadStore, ""},
		{pdu.NewPMID(70, 0, 2), []pdu.Value{word}, pdu.ErrnoPermission, ""},
		{pdu.NewPMID(70, 0, 3), []pdu.Value{word}, pdu.ErrnoPermission, ""},
		{pdu.NewPMID(70, 0, 4), []pdu.Value{word}, pdu.ErrnoPMID, ""},
		{pdu.NewPMID(70, 1, 1), []pdu.Value{word}, pdu.ErrnoPermission, ""},
		{pdu.NewPMID(70, 9, 9), []pdu.Value{word}, pdu.ErrnoPermission, ""},
	} {
		if err := c.store(tt.id, tt.values...); !errors.Is(err, tt.want) {
			t.Errorf("%v: %v, want %v", tt.id, err, tt.want)
		}
		if tt.debug != "" {
			if got := c.value("mmv.control.debug"); got != tt.debug {
				t.Errorf("debug is %s, want %s", got, tt.debug)
			}
		}
	}
	c.want(map[string]string{"mmv.f.m": "1"})
}
