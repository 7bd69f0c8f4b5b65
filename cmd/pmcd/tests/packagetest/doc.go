// Package packagetest tests what "make release" makes: that two builds are the same, and
// what is in them. Tests that install packages are in systemtest.
package packagetest
