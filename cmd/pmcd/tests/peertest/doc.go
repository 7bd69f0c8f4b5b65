// Package peertest compares our pmcd with PCP's, as the users of PCP's clients
// see them. It has tests only; see package peer for how they work and what
// they need.
package peertest
