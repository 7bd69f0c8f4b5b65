// Package sysfile reads the files of /proc and /sys for agents that are asked
// for the same ones again and again, without allocating anything: a [File] is
// one that stays open, a [Device] a directory of them, a [Reader] is for those
// that are many, small and soon gone, and the rest takes the numbers out of
// their text.
//
// Nothing here is for use by several goroutines at once, and what a read
// returns is valid until the next one.
package sysfile
