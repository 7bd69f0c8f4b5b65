package diag

import "testing"

// The tables have the columns that PCP's QA looks for.
func TestTables(t *testing.T) {
	const agents = `
active agent dom   pid  in out ver protocol parameters
============ === ===== === === === ======== ==========
pmcd           2                 2 dso i:6 lib=/x entry=pmcd_init
sample        29  4711  12  13   2 bin pipe cmd=/y`
	got := AgentTable([]AgentRow{
		{Name: "pmcd", Domain: 2, In: -1, Out: -1, Params: "dso i:6 lib=/x entry=pmcd_init"},
		{Name: "sample", Domain: 29, PID: 4711, In: 12, Out: 13, Params: "bin pipe cmd=/y"},
	})
	if got != agents+"\n" {
		t.Errorf("agents: got\n%s\nwant\n%s", got, agents)
	}
	const clients = `
Current PMCD clients ...
     fd  client connection from                    ipc ver  operations denied
     ==  ========================================  =======  =================
      7  127.0.0.1                                       2
     12  /run/pcp/pmcd.socket                            0  store`
	got = ClientTable("Current PMCD clients ...", []ClientRow{
		{FD: 7, Addr: "127.0.0.1", Version: 2},
		{FD: 12, Addr: "/run/pcp/pmcd.socket", Denied: "store"},
	})
	if got != clients+"\n" {
		t.Errorf("clients: got\n%s\nwant\n%s", got, clients)
	}
}

// State changes are named as in pmapi.h.
func TestStateChanges(t *testing.T) {
	for bits, want := range map[int32]string{0: "", 1: "ADD_AGENT", 6: "RESTART_AGENT+DROP_AGENT", 1 << 5: "HOSTNAME_CHANGE"} {
		if got := StateChanges(bits); got != want {
			t.Errorf("%#x: got %q, want %q", bits, got, want)
		}
	}
}
