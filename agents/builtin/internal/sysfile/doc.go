// Package sysfile reads files of /proc and /sys for agents that need the same
// files in each fetch. Reads do not allocate memory. A [File] stays open. A
// [Device] is a directory of /sys, which stays open with its files. A [Reader]
// reads small files that are many and short-lived. The functions of scan.go parse
// the text.
//
// No type of this package may be used by several goroutines at once. What a read
// returns is valid until the next read.
package sysfile
