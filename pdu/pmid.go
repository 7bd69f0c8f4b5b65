package pdu

import (
	"fmt"
	"strconv"
	"strings"
)

// A PMID is a performance metric identifier: 1 flag bit, 9 bits of domain,
// 12 of cluster and 10 of item, from the most significant bit down.
type PMID uint32

// NoPMID is PM_ID_NULL.
const NoPMID PMID = 0xffffffff

// MaxDomain is the largest domain number of an agent.
const MaxDomain = dynamicDomain - 1

// dynamicDomain is the domain of dynamic roots (DYNAMIC_PMID, libpcp.h). It is also
// that of derived metrics, which clients do not send to pmcd.
const dynamicDomain = 511

// NewPMID packs its arguments. It panics if one is out of range, so it is for
// constants; values from outside go through ParsePMID.
func NewPMID(domain, cluster, item int) PMID {
	if domain>>9 != 0 || cluster>>12 != 0 || item>>10 != 0 {
		panic(fmt.Sprintf("pdu: no such PMID: %d.%d.%d", domain, cluster, item))
	}
	return PMID(domain<<22 | cluster<<10 | item)
}

// ParsePMID is the inverse of String, for domain.cluster.item.
func ParsePMID(s string) (PMID, error) {
	d, rest, ok1 := strings.Cut(s, ".")
	c, i, ok2 := strings.Cut(rest, ".")
	domain, err1 := strconv.ParseUint(d, 10, 9)
	cluster, err2 := strconv.ParseUint(c, 10, 12)
	item, err3 := strconv.ParseUint(i, 10, 10)
	if !ok1 || !ok2 || err1 != nil || err2 != nil || err3 != nil {
		return NoPMID, fmt.Errorf("no such PMID: %q", s)
	}
	return NewPMID(int(domain), int(cluster), int(item)), nil
}

// DynamicRoot returns the PMID of a dynamic root in a name space: the name above all
// names that only the agent of a domain knows (domain:*:* in a PMNS file).
func DynamicRoot(domain int) PMID { return NewPMID(dynamicDomain, domain, 0) }

// Domain reports the domain, which names the agent.
func (id PMID) Domain() int { return int(id>>22) & 0x1ff }

// Cluster reports the cluster.
func (id PMID) Cluster() int { return int(id>>10) & 0xfff }

// Item reports the item.
func (id PMID) Item() int { return int(id) & 0x3ff }

// IsDynamicRoot reports whether id comes from DynamicRoot.
func (id PMID) IsDynamicRoot() bool {
	return id != NoPMID && id.Domain() == dynamicDomain && id.Item() == 0
}

// DynamicDomain returns the argument of DynamicRoot.
func (id PMID) DynamicDomain() int { return id.Cluster() }

// String returns id as PCP tools print it, such as 60.0.21.
func (id PMID) String() string {
	if id == NoPMID {
		return "PM_ID_NULL"
	}
	var buf [16]byte
	b := strconv.AppendInt(buf[:0], int64(id.Domain()), 10)
	b = strconv.AppendInt(append(b, '.'), int64(id.Cluster()), 10)
	b = strconv.AppendInt(append(b, '.'), int64(id.Item()), 10)
	return string(b)
}

// An InDom is an instance domain identifier: 1 flag bit, 9 bits of domain and
// 22 of serial number. NoInDom marks a metric with a single value.
type InDom uint32

// NoInDom is PM_INDOM_NULL.
const NoInDom InDom = 0xffffffff

// NoInst is PM_IN_NULL, the instance of a metric without instances.
const NoInst int32 = -1

// NewInDom packs its arguments. Like NewPMID it is for constants.
func NewInDom(domain, serial int) InDom {
	if domain>>9 != 0 || serial>>22 != 0 {
		panic(fmt.Sprintf("pdu: no such instance domain: %d.%d", domain, serial))
	}
	return InDom(domain<<22 | serial)
}

// ParseInDom is the inverse of String, for domain.serial.
func ParseInDom(s string) (InDom, error) {
	d, n, ok := strings.Cut(s, ".")
	domain, err1 := strconv.ParseUint(d, 10, 9)
	serial, err2 := strconv.ParseUint(n, 10, 22)
	if !ok || err1 != nil || err2 != nil {
		return NoInDom, fmt.Errorf("no such instance domain: %q", s)
	}
	return NewInDom(int(domain), int(serial)), nil
}

// Domain reports the domain, which names the agent.
func (id InDom) Domain() int { return int(id>>22) & 0x1ff }

// Serial reports the serial number.
func (id InDom) Serial() int { return int(id) & 0x3fffff }

// String returns id as PCP tools print it, such as 60.1.
func (id InDom) String() string {
	if id == NoInDom {
		return "PM_INDOM_NULL"
	}
	return strconv.Itoa(id.Domain()) + "." + strconv.Itoa(id.Serial())
}
