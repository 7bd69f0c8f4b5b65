package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/logtext"
)

// Attributes are keys of JSON objects.
func TestJSONFields(t *testing.T) {
	for _, tt := range []struct {
		name string
		log  func(*slog.Logger)
		want map[string]any // but for time and pid
	}{
		{"text", func(l *slog.Logger) { l.With(logtext.Bare()).Info("\nit works\n") },
			map[string]any{"level": "info", "msg": "it works"}},
		{"template", func(l *slog.Logger) {
			l.With("domain", 253).Error("agent {agent:q}: {error}", "agent", "simple", "error", errors.New("no"), "attempt", uint(3))
		}, map[string]any{"level": "error", "msg": `agent "simple": no`, "template": "agent {agent:q}: {error}",
			"agent": "simple", "domain": 253.0, "error": "no", "attempt": 3.0}},
		{"event", func(l *slog.Logger) {
			l.Error("{error}", "error", errors.New("no"), logtext.Event("start_failed"))
		}, map[string]any{"level": "error", "msg": "no", "template": "{error}", "error": "no", "event": "start_failed"}},
		{"alert", func(l *slog.Logger) { l.Log(t.Context(), logtext.LevelAlert, "m") }, map[string]any{"level": "error", "msg": "m"}},
		{"event of a table", func(l *slog.Logger) { l.With(logtext.Bare()).Info("\na\nb\n", logtext.Event("agent_table")) },
			map[string]any{"level": "info", "msg": "a\nb", "event": "agent_table"}},
		{"types", func(l *slog.Logger) {
			l.Warn("m", "b", true, "c", false, "f", 1.5, "d", 2*time.Second, "n", nil, "l", []string{"x", "y"}, "g", slog.GroupValue(slog.Int("h", -1)))
		}, map[string]any{"level": "warn", "msg": "m b=true c=false f=1.5 d=2s n=<nil> l=\"[x y]\" g.h=-1",
			"b": true, "c": false, "f": 1.5, "d": "2s", "n": "<nil>", "l": []any{"x", "y"}, "g.h": -1.0}},
		{"hostile", func(l *slog.Logger) { l.Info("{a}{l}", "a", "\x1b\u009b\x7f\n", "l", []string{"\u202e\n"}) },
			map[string]any{"level": "info", "msg": `\x1b\u009b\x7f\n` + "\n\t| " + `\u202e\n`, "template": "{a}{l}", "a": `\x1b\u009b\x7f` + "\n", "l": []any{`\u202e\n`}}},
		{"reserved names", func(l *slog.Logger) {
			l.Info("{pid} {msg}", "pid", 7, "msg", "x", "level", 1, "time", 2, "template", 3)
		},
			map[string]any{"level": "info", "msg": "7 x", "template": "{pid} {msg}",
				"attr.pid": 7.0, "attr.msg": "x", "attr.level": 1.0, "attr.time": 2.0, "attr.template": 3.0}},
		{"each key once", func(l *slog.Logger) { l.With("a", 1).Info("{a}", "a", 2) },
			map[string]any{"level": "info", "msg": "2", "template": "{a}", "a": 2.0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			tt.log(slog.New(NewHandler(NewCore(&b, "json"))))
			var got map[string]any
			if err := json.Unmarshal(b.Bytes(), &got); err != nil {
				t.Fatalf("%v: %s", err, &b)
			}
			if at, err := time.Parse(time.RFC3339Nano, got["time"].(string)); err != nil || time.Since(at) > time.Minute {
				t.Errorf("time %v, %v", at, err)
			}
			if got["pid"] != float64(os.Getpid()) {
				t.Errorf("pid %v", got["pid"])
			}
			delete(got, "time")
			delete(got, "pid")
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v\nwant %v", got, tt.want)
			}
			if n := bytes.Count(b.Bytes(), []byte(`"a":`)); n > 1 {
				t.Errorf("a key twice: %s", &b)
			}
		})
	}
}
