package metrics

import (
	"encoding/json"
	"testing"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// Text and JSON have the same number, with no more digits than it needs.
func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		typ        pdu.MetricType
		value      string
		text, json string
	}{
		{pdu.MetricFloat, "4.93", "4.93", "4.93"},
		{pdu.MetricDouble, "0.1", "0.1", "0.1"},
		{pdu.MetricDouble, "12345678.5", "12345678.5", "12345678.5"},
		{pdu.MetricFloat, "100", "100", "100"},
		{pdu.MetricFloat, "1e30", "1e+30", "1e+30"},
		{pdu.MetricFloat, "nan", "nan", "null"},
		{pdu.MetricU64, "18446744073709551615", "18446744073709551615", "18446744073709551615"},
		{pdu.MetricString, "4.93", `"4.93"`, `"4.93"`},
	} {
		is, err := pmapi.ParseValue(tt.typ, tt.value)
		if err != nil {
			t.Fatal(err)
		}
		v := newValue(pmapi.Instance[pmapi.Value]{ID: pdu.NoInst, Value: is})
		b, err := json.Marshal(v.Value)
		if v.Text() != tt.text || string(b) != tt.json || err != nil {
			t.Errorf("%v %s: %s and in JSON %s, %v; want %s and %s", tt.typ, tt.value, v.Text(), b, err, tt.text, tt.json)
		}
	}
}
