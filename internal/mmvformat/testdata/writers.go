// Writes speed_v1.mmv and speed_v2.mmv to the directory in its argument, with
// github.com/performancecopilot/speed. In a directory of its own:
//
//	go mod init writers && go get github.com/performancecopilot/speed/v4@v4.0.0 && go run . DIRECTORY
package main

import (
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/performancecopilot/speed/v4"
)

func main() {
	dir, err := os.MkdirTemp("", "")
	check(err)
	defer os.RemoveAll(dir)
	conf := filepath.Join(dir, "pcp.conf")
	check(os.WriteFile(conf, []byte("PCP_TMP_DIR="+dir+"\n"), 0o644))
	check(os.Mkdir(filepath.Join(dir, "mmv"), 0o755))
	if os.Getenv("PCP_CONF") == "" { // speed reads it in an init function
		check(os.MkdirAll(os.Args[1], 0o755))
		os.Setenv("PCP_CONF", conf)
		os.Setenv("PCP_DIR", "/")
		p, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr}})
		check(err)
		state, err := p.Wait()
		check(err)
		for _, name := range []string{"speed_v1.mmv", "speed_v2.mmv"} {
			b, err := os.ReadFile(filepath.Join(dir, "mmv", name))
			check(err)
			check(os.WriteFile(filepath.Join(os.Args[1], name), b, 0o644))
		}
		if !state.Success() {
			log.Fatal(state)
		}
		return
	}
	write("speed_v1.mmv", "long")
	write("speed_v2.mmv", strings.Repeat("long", 20))
}

func write(file, name string) {
	c, err := speed.NewPCPClient(file)
	check(err)
	check(c.SetFlag(0)) // no process
	for _, m := range []struct {
		name  string
		value any
		t     speed.MetricType
		sem   speed.MetricSemantics
		unit  speed.MetricUnit
	}{
		{"s32", int32(-5), speed.Int32Type, speed.InstantSemantics, speed.OneUnit},
		{"u32", uint32(4000000000), speed.Uint32Type, speed.CounterSemantics, speed.OneUnit},
		{"s64", int64(-6), speed.Int64Type, speed.DiscreteSemantics, speed.ByteUnit},
		{"u64", uint64(1 << 63), speed.Uint64Type, speed.CounterSemantics, speed.OneUnit},
		{"float", float32(1.5), speed.FloatType, speed.InstantSemantics, speed.MillisecondUnit},
		{"double", 0.25, speed.DoubleType, speed.InstantSemantics, speed.MillisecondUnit},
		{"string." + name, "text", speed.StringType, speed.InstantSemantics, speed.OneUnit},
	} {
		metric, err := speed.NewPCPSingletonMetric(m.value, m.name, m.t, m.sem, m.unit, "short text", "long text")
		check(err)
		check(c.Register(metric))
	}
	counter, err := speed.NewPCPCounter(0, "counter")
	check(err)
	check(c.Register(counter))
	vector, err := speed.NewPCPCounterVector(map[string]int64{"zero": 0, "one": 1}, "vector", "short text")
	check(err)
	check(c.Register(vector))
	strs, err := speed.NewPCPInstanceDomain("strings", []string{"a", "b"})
	check(err)
	check(c.Registry().AddInstanceDomain(strs))
	texts, err := speed.NewPCPInstanceMetric(speed.Instances{"a": "A", "b": "B"}, "texts", strs, speed.StringType, speed.InstantSemantics, speed.OneUnit)
	check(err)
	check(c.Register(texts))
	check(c.Start())
	counter.Up()
	vector.Up("one")
	check(texts.SetInstance("other", "b"))
	check(c.Stop())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
