// Package access tests access control: PCP's pmcd and ours with the same rules,
// and clients with all kinds of addresses and uids, in a network of its own.
package access
