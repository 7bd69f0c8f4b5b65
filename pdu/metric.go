package pdu

import "strconv"

// MetricType is the type of a metric's values (PM_TYPE_*, pmapi.h).
type MetricType int32

// Metric types. In a value block the type has 8 bits.
const (
	MetricNoSupport       MetricType = -1 // not supported on this host
	Metric32              MetricType = 0
	MetricU32             MetricType = 1
	Metric64              MetricType = 2
	MetricU64             MetricType = 3
	MetricFloat           MetricType = 4 // 32 bits
	MetricDouble          MetricType = 5 // 64 bits
	MetricString          MetricType = 6 // with a NUL at its end
	MetricAggregate       MetricType = 7 // any bytes
	MetricAggregateStatic MetricType = 8
	MetricEvent           MetricType = 9  // see ParseEvents
	MetricHighResEvent    MetricType = 10 // see ParseEvents
	MetricUnknown         MetricType = 255
)

var metricTypeNames = [...]string{
	"32", "U32", "64", "U64", "FLOAT", "DOUBLE", "STRING",
	"AGGREGATE", "AGGREGATE_STATIC", "EVENT", "HIGHRES_EVENT",
}

// String returns the name of t without its prefix, such as U64.
func (t MetricType) String() string {
	switch {
	case t == MetricNoSupport:
		return "NOSUPPORT"
	case t == MetricUnknown:
		return "UNKNOWN"
	case t >= 0 && int(t) < len(metricTypeNames):
		return metricTypeNames[t]
	}
	return "TYPE-" + strconv.Itoa(int(t))
}

// Sem is the semantics of a metric's values (PM_SEM_*, pmapi.h).
type Sem int32

// Semantics. 0 occurs in the descriptors of metrics that are not supported.
const (
	SemCounter  Sem = 1 // increases, except when it wraps around
	SemInstant  Sem = 3 // changes at any time
	SemDiscrete Sem = 4 // changes rarely, and is valid until the next change
)

// String returns the name of s as PCP tools print it, such as counter.
func (s Sem) String() string {
	switch s {
	case SemCounter:
		return "counter"
	case SemInstant:
		return "instant"
	case SemDiscrete:
		return "discrete"
	}
	return "sem-" + strconv.Itoa(int(s))
}
