package pmapi

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// String returns v as PCP's tools print it (pmPrintValue(3)): a string is in quotes, an
// aggregate in hexadecimal digits, after its text if it is printable, and of events there is
// the number and the time, in the local time zone. The tools also guess which numbers an
// aggregate of 4 or 8 bytes could be; String does not.
func (v Value) String() string {
	switch v.typ {
	case pdu.Metric32:
		return strconv.Itoa(int(int32(v.bits)))
	case pdu.MetricU32, pdu.MetricU64:
		return strconv.FormatUint(v.bits, 10)
	case pdu.Metric64:
		return strconv.FormatInt(int64(v.bits), 10)
	case pdu.MetricFloat:
		return formatFloat(float64(math.Float32frombits(uint32(v.bits))), 8)
	case pdu.MetricDouble:
		return formatFloat(math.Float64frombits(v.bits), 16)
	case pdu.MetricString:
		return `"` + string(v.bytes) + `"`
	case pdu.MetricEvent, pdu.MetricHighResEvent:
		return v.eventText()
	}
	hexes := "[" + hex.EncodeToString(v.bytes) + "]"
	for _, c := range v.bytes {
		if c < ' ' || c > '~' {
			return hexes
		}
	}
	return `"` + string(v.bytes) + `" ` + hexes
}

// formatFloat returns f as %.*g of C prints it.
func formatFloat(f float64, digits int) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+"))
	}
	s := strconv.FormatFloat(f, 'e', digits-1, 64)
	mantissa, exponent, _ := strings.Cut(s, "e")
	if x, _ := strconv.Atoi(exponent); x >= -4 && x < digits {
		mantissa, exponent = strconv.FormatFloat(f, 'f', digits-1-x, 64), ""
	} else {
		exponent = "e" + exponent
	}
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	return mantissa + exponent
}

func (v Value) eventText() string {
	recs, err := v.Events()
	if err != nil {
		return "[bad event records]"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[%d event record", len(recs))
	if len(recs) != 1 {
		b.WriteByte('s')
	}
	missed := 0
	for _, r := range recs {
		missed += int(r.Missed)
	}
	if missed > 0 {
		fmt.Fprintf(&b, " (%d missed)", missed)
	}
	if len(recs) > 0 {
		form := "15:04:05.000"
		if v.typ == pdu.MetricHighResEvent {
			form = "15:04:05.000000000"
		}
		stamp := func(r pdu.EventRecord) string { return time.Unix(r.Sec, r.Nsec).Format(form) }
		b.WriteString(" timestamp")
		if len(recs) > 1 {
			b.WriteByte('s')
		}
		b.WriteString(" " + stamp(recs[0]))
		if len(recs) > 1 {
			b.WriteString("..." + stamp(recs[len(recs)-1]))
		}
	}
	b.WriteByte(']')
	return b.String()
}

// ParseValue returns the value that a text means for a metric of a type, as pmstore(1) takes
// it: an integer may be in base 8 or 16 if it begins with 0 or 0x. It fails with
// pdu.ErrnoConv if the text is no such number, with pdu.ErrnoTrunc if the number is out of
// range, and with pdu.ErrnoType for aggregates and events.
func ParseValue(typ pdu.MetricType, s string) (Value, error) {
	var v Value
	var err error
	switch typ {
	case pdu.Metric32, pdu.Metric64:
		var i int64
		i, err = strconv.ParseInt(s, base(s), bitsOf(typ))
		if v = ValueOf(i); typ == pdu.Metric32 {
			v = ValueOf(int32(i))
		}
	case pdu.MetricU32, pdu.MetricU64:
		var u uint64
		u, err = strconv.ParseUint(s, base(s), bitsOf(typ))
		if v = ValueOf(u); typ == pdu.MetricU32 {
			v = ValueOf(uint32(u))
		}
	case pdu.MetricFloat, pdu.MetricDouble:
		var f float64
		f, err = strconv.ParseFloat(s, bitsOf(typ))
		if v = ValueOf(f); typ == pdu.MetricFloat {
			v = ValueOf(float32(f))
		}
	case pdu.MetricString:
		if strings.IndexByte(s, 0) >= 0 {
			return Value{}, fmt.Errorf("%q: %w", s, pdu.ErrnoConv)
		}
		return ValueOf(s), nil
	default:
		return Value{}, fmt.Errorf("value of type %v: %w", typ, pdu.ErrnoType)
	}
	if err != nil {
		code := pdu.ErrnoConv
		if isRange(err) {
			code = pdu.ErrnoTrunc
		}
		return Value{}, fmt.Errorf("%q: %w", s, code)
	}
	return v, nil
}

func bitsOf(typ pdu.MetricType) int {
	switch typ {
	case pdu.Metric32, pdu.MetricU32, pdu.MetricFloat:
		return 32
	}
	return 64
}

// base returns the base of an integer as strtol(3) finds it. Go's base 0 would also take
// underscores, 0b and 0o.
func base(s string) int {
	if strings.ContainsAny(s, "_oObB") && !strings.ContainsAny(s, "xX") || strings.Contains(s, "_") {
		return 10 // which refuses them
	}
	return 0
}

func isRange(err error) bool { return errors.Is(err, strconv.ErrRange) }
