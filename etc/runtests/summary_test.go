package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

// A test that hangs is named, with what it has printed.
func TestHang(t *testing.T) {
	var out strings.Builder
	s := newSummary(&out)
	s.read(strings.NewReader(`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: test timed out after 1s\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.0s\n"}
{"Action":"fail","Package":"p","Elapsed":1}
`))
	if s.finish(0, time.Second) {
		t.Error("nothing has failed")
	}
	for _, want := range []string{"panic: test timed out", "== failed\n    p TestA has not ended\n", "1 passed, 1 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// A test that runs in another step has not failed with its package.
func TestStepsOfOnePackage(t *testing.T) {
	var out strings.Builder
	s := newSummary(&out)
	r, w := io.Pipe()
	ended := make(chan struct{})
	go func() { defer close(ended); s.read(r) }()
	for range 2 { // the first line has been read when the second is
		io.WriteString(w, `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`+"\n")
	}
	s.read(strings.NewReader(`{"Action":"fail","Package":"p","Test":"TestB","Elapsed":1}` + "\n" + `{"Action":"fail","Package":"p","Elapsed":1}` + "\n"))
	io.WriteString(w, `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1}`+"\n")
	w.Close()
	<-ended
	if s.finish(0, time.Second); !strings.Contains(out.String(), "== failed\n    p TestB\n== ") {
		t.Errorf("in\n%s", out.String())
	}
}
