package conn

import "testing"

// The reserve follows the limit and the number of agents. A process with few
// descriptors has clients, too.
func TestReserve(t *testing.T) {
	for _, tt := range []struct {
		limit            uint64
		agents           int
		reserve, clients int64
		short            bool
	}{
		{1 << 20, 9, 1187, 1<<20 - 1187, false},
		{20000, 9, 1187, 18813, false},
		{20000, 80, 2323, 17677, false},
		{1024, 9, 515, 509, false},
		{512, 3, 355, 157, false},
		{512, 9, 451, 128, true},
		{256, 9, 419, 64, true},
		{40, 1, 264, 10, true},
		{3, 1, 259, 1, true},
		{0, 1, 259, 1, true},
	} {
		need := reserve(tt.limit, 3, tt.agents)
		clients, short := maxConns(tt.limit, need)
		if int64(need) != tt.reserve || clients != tt.clients || short != tt.short {
			t.Errorf("%d descriptors, %d agents: reserve %d, clients %d, short %v; want %d, %d, %v",
				tt.limit, tt.agents, need, clients, short, tt.reserve, tt.clients, tt.short)
		}
	}
}
