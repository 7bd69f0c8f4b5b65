package mmv

import "math"

// A Counter is a number that increases. Clients compute its rate.
type Counter struct{ word }

// Inc adds 1.
func (c *Counter) Inc() { c.Add(1) }

// Add adds n.
func (c *Counter) Add(n uint64) {
	if c != nil {
		c.word.add(n)
	}
}

// Set sets the value: for a counter that is counted elsewhere, such as in a library.
func (c *Counter) Set(n uint64) {
	if c != nil {
		c.word.set(n)
	}
}

// Value returns the value. It is 0 if the value is absent.
func (c *Counter) Value() uint64 {
	if c == nil {
		return 0
	}
	return c.word.load()
}

// Unset makes the value absent until the next update. It does nothing without
// [Config.Sentinel].
func (c *Counter) Unset() {
	if c != nil {
		c.word.unset()
	}
}

// A FloatCounter is a number with a fraction that increases, such as a time in seconds.
type FloatCounter struct{ word }

// Add adds n.
func (c *FloatCounter) Add(n float64) {
	if c != nil {
		c.word.addFloat(n)
	}
}

// Set sets the value.
func (c *FloatCounter) Set(n float64) {
	if c != nil {
		c.word.set(math.Float64bits(n))
	}
}

// Value returns the value. It is 0 if the value is absent.
func (c *FloatCounter) Value() float64 {
	if c == nil {
		return 0
	}
	return math.Float64frombits(c.word.load())
}

// Unset makes the value absent, as [Counter.Unset] does.
func (c *FloatCounter) Unset() {
	if c != nil {
		c.word.unset()
	}
}

// A Gauge is a number that goes up and down.
//
// With [Config.Sentinel] the file represents an absent value as -1, so a gauge that may be
// negative should be a [FloatGauge] there.
type Gauge struct{ word }

// Inc adds 1.
func (g *Gauge) Inc() { g.Add(1) }

// Dec subtracts 1.
func (g *Gauge) Dec() { g.Add(-1) }

// Add adds n, which may be negative.
func (g *Gauge) Add(n int64) {
	if g != nil {
		g.word.add(uint64(n))
	}
}

// Set sets the value.
func (g *Gauge) Set(n int64) {
	if g != nil {
		g.word.set(uint64(n))
	}
}

// Value returns the value. It is 0 if the value is absent.
func (g *Gauge) Value() int64 {
	if g == nil {
		return 0
	}
	return int64(g.word.load())
}

// Unset makes the value absent, as [Counter.Unset] does.
func (g *Gauge) Unset() {
	if g != nil {
		g.word.unset()
	}
}

// A FloatGauge is a number with a fraction that goes up and down.
type FloatGauge struct{ word }

// Add adds n, which may be negative.
func (g *FloatGauge) Add(n float64) {
	if g != nil {
		g.word.addFloat(n)
	}
}

// Set sets the value.
func (g *FloatGauge) Set(n float64) {
	if g != nil {
		g.word.set(math.Float64bits(n))
	}
}

// Value returns the value. It is 0 if the value is absent.
func (g *FloatGauge) Value() float64 {
	if g == nil {
		return 0
	}
	return math.Float64frombits(g.word.load())
}

// Unset makes the value absent, as [Counter.Unset] does. PCP's agent shows an absent value
// of a FloatGauge or FloatCounter as NaN before PCP 7.0.
func (g *FloatGauge) Unset() {
	if g != nil {
		g.word.unset()
	}
}

func (w *word) unset() {
	if w.sentinel {
		w.set(none)
	}
}
