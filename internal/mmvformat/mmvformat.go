// Package mmvformat has the layout of MMV files (memory mapped values), mmv(5): the
// sections, their entries and the codes in them. Package agents/builtin/mmv
// reads such files, and agents/mmv writes them, by default in the directory [Dir].
//
// A file is a Header, its table of contents (a Section for each section), and the
// sections in any order. All numbers are in the byte order of the host. All offsets
// count from the start of the file. The structs have no padding, so that
// encoding/binary reads and writes them as they are.
//
// In files of version 1, names are in the entries of metrics and instances. In
// versions 2 and 3 they are in String entries. Only version 3 has labels.
package mmvformat

// Magic is the first four bytes of a file.
const Magic = "MMV\x00"

// Versions of the format. A file has the lowest version that can represent it.
const (
	Version1 = 1
	Version2 = 2 // a name has 64 bytes or more
	Version3 = 3 // there are labels
)

// Flags of a Header.
const (
	FlagNoPrefix = 1 // names of metrics do not begin with the name of the file
	FlagProcess  = 2 // the file is of no use when the process Header.Process has ended
	FlagSentinel = 4 // values may be absent: see NoValue
	AllFlags     = FlagNoPrefix | FlagProcess | FlagSentinel
)

// A Header is the beginning of a file.
type Header struct {
	Magic       [4]byte
	Version     int32
	Generation1 uint64 // not 0
	Generation2 uint64 // is Generation1 once the file is complete, and 0 before
	Sections    int32  // number of entries of the table of contents, at least 2
	Flags       uint32
	Process     int32 // process id of the writer
	Cluster     int32 // cluster of the metrics' PMIDs; 0: the reader chooses one
}

// A SectionType says what the entries of a section are.
type SectionType int32

// Types of sections.
const (
	InDoms    SectionType = 1
	Instances SectionType = 2
	Metrics   SectionType = 3
	Values    SectionType = 4
	Strings   SectionType = 5
	Labels    SectionType = 6
)

// A Section is an entry of the table of contents.
type Section struct {
	Type   SectionType
	Count  int32  // number of entries
	Offset uint64 // of the first entry
}

// An InDom is an instance domain. The offset of its Instances is that of the first
// one; the others follow. Texts are offsets of Strings; 0 is no text.
type InDom struct {
	Serial              uint32
	Count               uint32 // number of instances
	Instances           uint64
	ShortText, HelpText uint64
}

// An InstanceV1 is an instance in a file of version 1.
type InstanceV1 struct {
	InDom uint64 // offset of the InDom
	_     uint32
	ID    int32
	Name  [NameSize]byte
}

// An InstanceV2 is an instance in a file of version 2 or 3.
type InstanceV2 struct {
	InDom uint64 // offset of the InDom
	_     uint32
	ID    int32
	Name  uint64 // offset of a String
}

// A MetricV1 is a metric in a file of version 1.
type MetricV1 struct {
	Name [NameSize]byte
	MetricFields
}

// A MetricV2 is a metric in a file of version 2 or 3.
type MetricV2 struct {
	Name uint64 // offset of a String
	MetricFields
}

// MetricFields are the fields of a metric that all versions have. Texts are offsets of
// Strings; 0 is no text.
type MetricFields struct {
	Item                uint32
	Type                Type
	Sem                 int32  // pdu.Semantics; 0 is a counter
	Units               uint32 // pdu.Units
	InDom               int32  // serial of an InDom; 0 and NoInDom: a metric without instances
	_                   uint32
	ShortText, HelpText uint64
}

// NoInDom is the serial of metrics without instances; so is 0.
const NoInDom = -1

// A Type is the type of a metric's values. Except for Elapsed, it is the
// pdu.MetricType of the same number.
type Type int32

// Types of values.
const (
	NoSupport Type = -1
	Int32     Type = 0
	Uint32    Type = 1
	Int64     Type = 2
	Uint64    Type = 3
	Float     Type = 4
	Double    Type = 5
	String    Type = 6
	// Elapsed is the time in microseconds that a program has spent in an activity,
	// which may be under way.
	Elapsed Type = 9
)

// A Value is a value of a metric, or of one of its instances.
//
// Values of 32 bits are the first four bytes of Data. The length of a string is in
// Data, but readers do not use it.
type Value struct {
	Data [8]byte
	// Extra is the offset of the String of a string. For Elapsed it is the negative
	// time at which the activity has begun, in microseconds since 1970, or 0 if the
	// activity is not under way. Otherwise it is 0.
	Extra    int64
	Metric   uint64 // offset of the metric
	Instance uint64 // offset of the instance; 0 if the metric has no instances
}

// NoValue is the Data of an absent value of a number in a file with FlagSentinel. An
// absent string is empty, and an absent Float or Double is NaN.
const NoValue = 1<<64 - 1

// A Text is an entry of the section Strings: a name, a text, or a value. It ends
// with a 0 byte.
type Text [StringSize]byte

// Flags of a Label: exactly one of the first four, and perhaps LabelOptional. They are
// those of pdu.LabelSet.
const (
	LabelInDom     = 4  // Identity is the serial of an InDom
	LabelCluster   = 8  // Identity is the cluster
	LabelItem      = 16 // Identity is the item of a metric
	LabelInstances = 32 // Identity is the serial of an InDom, Instance an instance
	LabelOptional  = 128
)

// A Label is a label of a cluster, metric, instance domain or instance.
type Label struct {
	Flags    uint32
	Identity uint32
	Instance int32                  // NoInstance except with LabelInstances
	Payload  [LabelPayloadSize]byte // a JSON object with one pair, and a 0 byte
}

// NoInstance is the Instance of labels that are not an instance's.
const NoInstance = -1

// Sizes of the structs in a file, in bytes.
const (
	HeaderSize       = 40
	SectionSize      = 16
	InDomSize        = 32
	InstanceV1Size   = 80
	InstanceV2Size   = 24
	MetricV1Size     = 104
	MetricV2Size     = 48
	ValueSize        = 32
	StringSize       = 256
	LabelSize        = 256
	NameSize         = 64 // of a name in version 1, with its 0 byte
	LabelPayloadSize = 244
)

// Limits.
const (
	MaxCluster = 1<<12 - 1
	MaxItem    = 1<<10 - 1
	// MaxSerial is the largest serial that does not change the cluster of the
	// instance domain, which is cluster<<SerialBits | serial.
	MaxSerial  = 1<<SerialBits - 1
	SerialBits = 11
	// MaxStringValue is the largest length of the value of a string metric: writers
	// of PCP ignore longer ones.
	MaxStringValue = 254
	MaxLabels      = 255 // in a file; readers of PCP ignore all labels if there are more
)
