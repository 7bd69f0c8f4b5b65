// Package pmnsload reads a performance metrics name space, PMNS(5): the tree
// of metric names, and the PMID of each.
//
// The file that pmcd reads by default is taken as it is. A file named with -n
// or -N goes through a preprocessor first, whose language is that of pmcpp(1)
// and which is part of this package: no program is run for it, but for #shell,
// and of the text it holds the line at hand. Either way the text is
//
//	file  = { path "{" { name [ pmid ] } "}" }
//	path  = name { "." name }
//	name  = letter { letter | digit | "_" }
//	pmid  = domain ":" cluster ":" item  |  domain ":" "*" ":" "*"
//
// with blanks between words. A name without PMID is a place in the tree and
// has a block of its own, anywhere in the file; the block "root" is the top
// and its name no part of metric names. D:*:* is a dynamic root: the names
// below it are known to the agent of domain D alone.
//
// Load makes a Tree, which is never written again. The package never calls an
// agent, and logs nothing.
package pmnsload
