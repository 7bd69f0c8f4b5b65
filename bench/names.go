package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/pdu"
)

const (
	pmdaDir   = "/var/lib/pcp/pmdas"
	stockPMNS = "/var/lib/pcp/pmns/root"
	stockConf = "/etc/pcp/pmcd/pmcd.conf"
)

// Domains of agents.
const (
	domainSample = 29
	domainProc   = 3
	domainLinux  = 60
	domainSlow   = 243
	domainSimple = 253
	domainGen    = 500 // of generated names; there is no agent
)

// genName is the name and the PMID of generated metric i of n: one of 20 groups
// in one of 100.
func genName(i, n int) (string, pdu.PMID) {
	per := max(1, (n+1999)/2000)
	return fmt.Sprintf("gen.g%02d.s%02d.m%04d", i/per/20, i/per%20, i%per), pdu.NewPMID(domainGen, i/1000, i%1000)
}

// appendGen appends the n generated names to a name space.
func appendGen(b *bytes.Buffer, n int) {
	rows := map[string][]string{} // by the name above them
	for i := range n {
		name, id := genName(i, n)
		w := strings.Split(name, ".")
		group, sub := w[0]+"."+w[1], w[0]+"."+w[1]+"."+w[2]
		if rows[group] == nil {
			rows[w[0]] = append(rows[w[0]], w[1])
		}
		if rows[sub] == nil {
			rows[group] = append(rows[group], w[2])
		}
		rows[sub] = append(rows[sub], fmt.Sprintf("%s %d:%d:%d", w[3], id.Domain(), id.Cluster(), id.Item()))
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		fmt.Fprintf(b, "%s {\n\t%s\n}\n", name, strings.Join(rows[name], "\n\t"))
	}
}

var (
	cComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	pmnsRoot = regexp.MustCompile(`(?m)^root\s*\{\s*$`)
)

// writePMNS writes a name space with the installed names, those of the
// demonstration agents, gen generated names and the extra names.
func writePMNS(path string, gen int, extra ...string) error {
	text, err := os.ReadFile(stockPMNS)
	if err != nil {
		return err
	}
	root := pmnsRoot.FindIndex(text)
	if root == nil {
		return fmt.Errorf("%s: no root", stockPMNS)
	}
	var b bytes.Buffer
	b.Write(text[:root[1]])
	b.WriteString("\n\tsimple\n\tsample\n\tslow\n")
	if gen > 0 {
		b.WriteString("\tgen\n")
	}
	for i, name := range extra {
		fmt.Fprintf(&b, "\t%s %d:4095:%d\n", name, domainGen, i)
	}
	b.Write(text[root[1]:])
	for name, domain := range map[string]int{"simple": domainSimple, "sample": domainSample} {
		t, err := os.ReadFile(filepath.Join(pmdaDir, name, "pmns"))
		if err != nil {
			return err
		}
		t = cComment.ReplaceAll(t, nil)
		b.Write(bytes.ReplaceAll(t, []byte(strings.ToUpper(name)+":"), []byte(strconv.Itoa(domain)+":")))
	}
	fmt.Fprintf(&b, "slow {\n\tcount %d:0:0\n\tlarge %[1]d:0:1\n}\n", domainSlow)
	appendGen(&b, gen)
	return replace(path, b.Bytes())
}

// replace replaces a file by rename, as an editor does.
func replace(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
