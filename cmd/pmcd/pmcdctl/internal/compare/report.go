package compare

// A Difference is what is not the same.
type Difference struct {
	Name     string `json:"name"` // of a metric, or of what else differs
	Instance string `json:"instance,omitempty"`
	What     string `json:"what"` // see What
	A        string `json:"a"`
	B        string `json:"b"`
	Why      string `json:"why,omitempty"` // of a known one: where the documentation has it
}

// What kinds of differences there are.
const (
	isName      = "name"
	isError     = "error"
	isType      = "type"
	isSemantics = "semantics"
	isUnits     = "units"
	isInDom     = "domain"
	isPMID      = "PMID"
	isText      = "text"
	isLabels    = "labels"
	isInstances = "instances"
	isNumber    = "number"
	isValue     = "value"
	isRate      = "rate"
	isReset     = "reset"
	isGaps      = "gaps"
	isTime      = "time"
	isCost      = "cost"
	isRestarts  = "restarts"
)

// A Report is the result of a comparison.
type Report struct {
	A        string `json:"a"` // hosts
	B        string `json:"b"`
	Together bool   `json:"together"` // the values are of the same time
	Metrics  int    `json:"metrics"`  // that both have
	Values   int    `json:"values"`   // that both have
	// Differences count. Known ones are deliberate and do not.
	Differences []Difference `json:"differences"`
	Known       []Difference `json:"known"`
	// Skipped is what could not be compared: the names, by the reason.
	Skipped map[string][]string `json:"skipped"`
	Cost    [2]*Cost            `json:"cost"` // of A and B
}

// A Cost is what a pmcd and its agents need.
type Cost struct {
	Answer int64   `json:"answer_us"` // to fetch all metrics of a snapshot
	CPU    float64 `json:"cpu,omitempty"`
	Memory int64   `json:"memory_kb,omitempty"`
}

// Reasons for which something could not be compared.
const (
	moves       = "the value changes"
	elsewhere   = "the values are of another time"
	ownAgent    = "each agent counts for itself"
	ownDaemon   = "each pmcd has its own"
	comeAndGo   = "instances come and go"
	noNumbers   = "the values are events or aggregates"
	noValue     = "neither has a value"
	observers   = "the processes of the two pmcds"
	otherAgents = "B does not have the agent"
	agentsEnded = "agents began or ended meanwhile"
	noProcess   = "the processes of pmcd are not known"
)
