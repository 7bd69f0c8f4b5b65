// Package releasetest runs our pmcd with the files of another release of PCP
// than the one that Debian 12 has: its configuration, name space, agents and
// clients.
package releasetest
