// Package pmnsload reads a performance metrics name space, PMNS(5): the tree
// of metric names, and the PMID of each.
//
// pmcd reads its default file without preprocessing. A file named with -n or -N
// is preprocessed as by pmcpp(1). The preprocessor is part of this package and
// holds one line in memory. It runs no program, unless Options.Shell is set for
// the commands of #shell. The text that results is
//
//	file  = { path "{" { name [ pmid ] } "}" }
//	path  = name { "." name }
//	name  = letter { letter | digit | "_" }
//	pmid  = domain ":" cluster ":" item  |  domain ":" "*" ":" "*"
//
// with blanks between words. A name without PMID is a non-leaf of the tree and
// has a block of its own, anywhere in the file. The block "root" is the top; its
// name is not part of the names of metrics. D:*:* is a dynamic root: only the
// agent of domain D knows the names below it.
//
// Load returns a Tree, which is immutable. The package never calls an agent and
// logs nothing.
//
// Package pmnsload serves the programs of this module, and may change in any release.
package pmnsload
