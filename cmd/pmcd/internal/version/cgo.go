//go:build cgo

package version

// Limits says what this build of pmcd cannot do, because it has no cgo. It is "" if there
// is nothing.
const Limits = ""
