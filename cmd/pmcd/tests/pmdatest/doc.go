// Package pmdatest runs agents that PCP ships for other programs, databases and
// web servers among them, under PCP's pmcd and ours: installed and removed by
// their own scripts, on machines with the files of a release of Debian. What was
// seen is in docs/pmdas.md.
package pmdatest
