package fuzztest

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// confLines are the lines of pmcd.conf. The agents whose replies are checked come
// first.
func (e *episode) confLines() []string {
	program := e.At("agents/" + agentName)
	lines := []string{
		"pmcd 2 dso pmcd_init /none",
		fmt.Sprintf("honest %d pipe binary %s %[1]d honest honest", domainHonest, program),
		fmt.Sprintf("involved %d pipe binary %s %[1]d involved honest", domainInvolved, program),
	}
	for i := range numLiars {
		d := domainLiar + i
		if i == numLiars-1 {
			sock := e.At(liarSocket)
			lines = append(lines, fmt.Sprintf("%s %d socket unix %s %s %[2]d %[1]s socket %[3]s", liarName(d), d, sock, program))
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %d pipe binary %s %[2]d %[1]s liar", liarName(d), d, program))
	}
	return append(lines,
		fmt.Sprintf("%s %d socket unix %s", liarName(domainExternal), domainExternal, e.At("agents/external.sock")),
		"linux 60 dso linux_init /none",
		"proc 3 dso proc_init /none",
		fmt.Sprintf("unsteady %d dso unsteady_init %s", domainUnsteady, e.plugin),
	)
}

// namespaceHead is the part of the name space that all versions have.
func (e *episode) namespaceHead() string {
	var b strings.Builder
	tops := []string{"honest", "involved"}
	for i := range numLiars + 1 {
		tops = append(tops, liarName(domainLiar+i))
	}
	fmt.Fprintf(&b, "root {\n\t%s\n", strings.Join(tops, "\n\t"))
	_, rest, _ := strings.Cut(e.stockNames, "root {\n")
	b.WriteString(rest)
	for i, domain := range []int{domainHonest, domainInvolved} {
		fmt.Fprintf(&b, "%s { word insts }\n", tops[i])
		for cluster, node := range []string{"word", "insts"} {
			fmt.Fprintf(&b, "%s.%s {\n", tops[i], node)
			for item := range honestItems {
				fmt.Fprintf(&b, "\tm%d %d:%d:%d\n", item, domain, cluster, item)
			}
			b.WriteString("}\n")
		}
	}
	return b.String()
}

// namespace returns the text of the name space.
func (e *episode) namespace() string {
	var b strings.Builder
	b.WriteString(e.namespaceHead())
	for i := range numLiars + 1 {
		name, domain := liarName(domainLiar+i), domainLiar+i
		fmt.Fprintf(&b, "%s { word dyn %d:*:* }\n%[1]s.word { m0 %[2]d:0:0 m1 %[2]d:0:1 }\n", name, domain)
	}
	return b.String()
}

// honestItems is the number of metrics of a kind that the honest agents have names for.
const honestItems = 10

// honestName returns the name of a metric of an honest agent.
func honestName(top string, cluster, item int) string {
	return fmt.Sprintf("%s.%s.m%d", top, []string{"word", "insts"}[cluster], item)
}

// install replaces a file in one step, as an editor does.
func (e *episode) install(name, text string) {
	err := os.WriteFile(e.At(name+".new"), []byte(text), 0o644)
	if fi, statErr := os.Stat(e.At(name)); err == nil && statErr == nil && fi.IsDir() {
		err = os.Remove(e.At(name))
	}
	if err == nil {
		err = os.Rename(e.At(name+".new"), e.At(name))
	}
	if err != nil {
		e.fail("%v", err)
	}
}

// remove removes a file, or puts a directory in its place.
func (e *episode) remove(name string, directory bool) {
	err := os.RemoveAll(e.At(name))
	if err == nil && directory {
		err = os.Mkdir(e.At(name), 0o755)
	}
	if err != nil {
		e.fail("%v", err)
	}
}

// restoreFiles installs the files that pmcd was started with.
func (e *episode) restoreFiles() {
	e.install("conf", textOf(e.confLines()))
	e.install("pmns", e.namespace())
}

func textOf(lines []string) string { return strings.Join(lines, "\n") + "\n" }

// checkedLines is the number of lines of pmcd.conf for agents whose replies are checked.
const checkedLines = 3

// changeConf installs another pmcd.conf, or removes it. What it says of the agents whose
// replies are checked stays the same, and clients of the Unix socket may connect. It
// returns what it has done.
func (e *episode) changeConf(g generator) string {
	lines := e.confLines()
	head := len(textOf(lines[:checkedLines]))
	at := checkedLines + g.IntN(len(lines)-checkedLines)
	what := pick(g.Rand, "as at the start", "as at the start", "as at the start", "without an agent", "other arguments", "another agent",
		"access rules", "access rules", "access rules", "bad line", "bad access rules", "cut", "missing", "directory", "mutated", "comments")
	text := textOf(lines)
	switch what {
	case "without an agent":
		text = textOf(slices.Delete(lines, at, at+1))
	case "other arguments":
		i := slices.IndexFunc(lines, func(s string) bool { return strings.HasSuffix(s, " liar") })
		lines[i] += " again"
		text = textOf(lines)
	case "another agent":
		how, not := pick(g.Rand, "slow", "silent", "exits", "garbage", "notready", ""), ""
		if how == "notready" {
			not = " notready"
		}
		text += fmt.Sprintf("extra %d pipe binary%s %s %[1]d extra liar %s\n", domainExtra, not, e.At("agents/"+agentName), how)
		what += " " + how
	case "access rules":
		text += "[access]\n" + pick(g.Rand,
			`disallow ".*" : all; disallow ":*" : all; allow "local:*" : all;`,
			`disallow ".*" : all; allow "local:*" : all;`,
			`disallow ".*" : store; allow "local:*" : all;`,
			`allow ".*" : maximum 3 connections; allow "local:*" : all;`,
			`allow user root : all; disallow user * : store;`,
			`disallow ".*" : fetch; allow "local:*" : all;`) + "\n"
	case "bad line":
		text = textOf(slices.Insert(lines, at, pick(g.Rand, "x", "x 600 pipe binary /bin/true", "x 17 dso", "x 18 socket inet 99999",
			"honest 240 pipe binary /bin/false", "\x00\xff", `x 1 pipe binary "`)))
	case "bad access rules":
		text += "[access]\n" + pick(g.Rand, "allow", "disallow * : fetch", "allow local:* : all", `allow "local:*" : all`, "allow user nosuchuser : all;") + "\n"
	case "cut":
		text = text[:head+g.IntN(len(text)-head)]
	case "mutated":
		text = text[:head] + string(mutate(g.Rand, []byte(text[head:])))
	case "comments":
		text = strings.Repeat("# comment\n", g.IntN(50000)) + text
	case "missing", "directory":
		e.remove("conf", what == "directory")
		return what
	}
	e.install("conf", text)
	return what
}

// changeNames installs another name space, or removes it. If it can be used, the names of
// the honest agents are the same in it. It returns what it has done.
func (e *episode) changeNames(g generator) string {
	text, head := e.namespace(), len(e.namespaceHead())
	what := pick(g.Rand, "as at the start", "as at the start", "more names", "cut", "mutated", "missing", "include", "empty", "directory")
	switch what {
	case "more names":
		text = strings.Replace(text, "honest { word insts }", "honest { word insts more }", 1) + "honest.more {\n"
		for i := range 1 + g.IntN(3000) {
			text += fmt.Sprintf("\tm%d %d:%d:%d\n", i, domainHonest, 8+i/1024, i%1024)
		}
		text += "}\n"
	case "cut":
		text = text[:head+g.IntN(len(text)-head)]
	case "mutated":
		text = text[:head] + string(mutate(g.Rand, []byte(text[head:])))
	case "include":
		text += pick(g.Rand, "#include \"pmns\"\n", "#include \"/no/such/file\"\n", "#ifdef X\n", "#define A B\n#define B A\nA\n")
	case "empty":
		text = ""
	case "missing", "directory":
		e.remove("pmns", what == "directory")
		return what
	}
	e.install("pmns", text)
	return what
}
