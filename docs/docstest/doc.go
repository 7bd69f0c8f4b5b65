// Package docstest tests the documents of this repository: that links lead
// somewhere, that commands work, and that what documents repeat from the code and
// from the tables of the bench is what is there.
package docstest
