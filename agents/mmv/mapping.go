package mmv

// A mapping is the memory of a file. It is unmapped when nothing refers to it any more:
// when there is another file, and no update is under way in this one.
type mapping struct{ data []byte }
