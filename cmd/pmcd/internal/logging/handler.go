package logging

import (
	"context"
	"log/slog"
	"math"

	"go.uber.org/zap/zapcore"

	"github.com/gopcp/pmcd/internal/logtext"
)

// A Handler is a [slog.Handler] that writes records to the log. Package logtext
// describes the text of an entry. All attributes are its fields.
type Handler struct {
	core  zapcore.Core
	scope logtext.Scope
}

var _ slog.Handler = Handler{}

// NewHandler returns a Handler that writes to the log of core.
func NewHandler(core zapcore.Core) Handler { return Handler{core: core} }

// Enabled implements [slog.Handler].
func (h Handler) Enabled(_ context.Context, l slog.Level) bool { return h.core.Enabled(zapLevel(l)) }

// Handle implements [slog.Handler].
func (h Handler) Handle(_ context.Context, r slog.Record) error {
	attrs := h.scope.Attrs(r)
	text, template := logtext.Append(nil, r.Message, attrs)
	e := zapcore.Entry{Level: zapLevel(r.Level), Time: r.Time, Message: string(text)}
	fields := make([]zapcore.Field, 0, len(attrs)+1)
	if template {
		fields = append(fields, stringField(templateKey, r.Message))
	}
	for i, a := range attrs {
		switch {
		case logtext.IsBare(a):
			e.LoggerName = bareName
		case !hasKey(attrs[i+1:], a.Key): // JSON objects have each key once
			fields = append(fields, field(a))
		}
	}
	return h.core.Write(e, fields)
}

// WithAttrs implements [slog.Handler].
func (h Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.scope = h.scope.WithAttrs(attrs)
	return h
}

// WithGroup implements [slog.Handler].
func (h Handler) WithGroup(name string) slog.Handler {
	h.scope = h.scope.WithGroup(name)
	return h
}

// bareName is the logger name of entries without time and severity.
const bareName = "plain"

// Keys of JSON that no attribute has. An attribute of that name has attrPrefix before it.
const (
	timeKey     = "time"
	levelKey    = "level"
	messageKey  = "msg"
	pidKey      = "pid" // of pmcd
	templateKey = "template"
	attrPrefix  = "attr."
)

// eventKey is the key of logtext.Event.
const eventKey = "event"

func hasKey(attrs []slog.Attr, key string) bool {
	for _, a := range attrs {
		if a.Key == key {
			return true
		}
	}
	return false
}

// field returns an attribute as a field: a number, a boolean, a list of strings, or a
// string. Other values are the strings that the text of an entry would have.
func field(a slog.Attr) zapcore.Field {
	key, v := a.Key, a.Value
	switch key {
	case timeKey, levelKey, messageKey, pidKey, templateKey:
		key = attrPrefix + key
	}
	switch v.Kind() {
	case slog.KindInt64:
		return intField(key, v.Int64())
	case slog.KindUint64:
		return zapcore.Field{Key: key, Type: zapcore.Uint64Type, Integer: int64(v.Uint64())}
	case slog.KindFloat64:
		return zapcore.Field{Key: key, Type: zapcore.Float64Type, Integer: int64(math.Float64bits(v.Float64()))}
	case slog.KindBool:
		f := zapcore.Field{Key: key, Type: zapcore.BoolType}
		if v.Bool() {
			f.Integer = 1
		}
		return f
	case slog.KindAny:
		if lines, ok := v.Any().([]string); ok {
			list := make(stringList, len(lines))
			for i := range list {
				list[i] = logtext.Printable(lines[i])
			}
			return zapcore.Field{Key: key, Type: zapcore.ArrayMarshalerType, Interface: list}
		}
	}
	return stringField(key, logtext.Value(v))
}

func stringField(key, s string) zapcore.Field {
	return zapcore.Field{Key: key, Type: zapcore.StringType, String: s}
}

func intField(key string, n int64) zapcore.Field {
	return zapcore.Field{Key: key, Type: zapcore.Int64Type, Integer: n}
}

// A stringList is an array of a JSON object.
type stringList []string

// MarshalLogArray implements [zapcore.ArrayMarshaler].
func (l stringList) MarshalLogArray(enc zapcore.ArrayEncoder) error {
	for _, s := range l {
		enc.AppendString(s)
	}
	return nil
}

// alertLevel is the level of lines that C pmcd logs as alerts: what libsasl2 says about failed
// logins. Only the text form has it. A wrong password is no emergency, as an alert of
// syslog(3) would be.
const alertLevel = zapcore.DPanicLevel

// zapLevel returns the level of zap for one of slog, which may be in between.
func zapLevel(l slog.Level) zapcore.Level {
	switch {
	case l < slog.LevelInfo:
		return zapcore.DebugLevel
	case l < slog.LevelWarn:
		return zapcore.InfoLevel
	case l < slog.LevelError:
		return zapcore.WarnLevel
	case l == logtext.LevelAlert:
		return alertLevel
	}
	return zapcore.ErrorLevel
}
