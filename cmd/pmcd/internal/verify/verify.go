// Package verify is pmcd -v: it checks the files that pmcd would read at its start.
package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/open"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/internal/launch/dsohost"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
	"github.com/gopcp/pmcd/pmnsload"
)

// Run checks the files that pmcd would read with these options, prints all mistakes, and
// returns the exit code. It executes no command of a name space file: root runs it, and
// other users may be able to change that file. It has no context, because a signal ends
// pmcd -v. incomplete is why the options are not sufficient, or nil.
//
// PCP's script calls pmcd -v before each start. So the exit code is an error only for
// mistakes that C pmcd rejects, too, or that would keep pmcd from starting. All others are
// warnings.
func Run(opt *cli.Options, incomplete error, builtin open.BuiltinAgents, stderr io.Writer) int {
	v := &verifier{out: stderr, code: cli.ExitOK, builtin: builtin, notes: opt.VerifyRights, noDSO: dsohost.Supported()}
	if incomplete != nil {
		fmt.Fprintf(stderr, "%s: %v\n", strings.TrimSpace("pmcd verify "+opt.Config), incomplete)
		if opt.Config != "" {
			v.conf(opt)
		}
		return cli.ExitError
	}
	if opt.Embedded { // tests have checked the rest
		v.tls(opt)
		return v.code
	}
	for _, w := range opt.Mistakes {
		v.warn(pmcdconf.Pos{}, errors.New(w))
	}
	if !v.conf(opt) {
		return v.code
	}
	v.names(opt)
	v.tls(opt)
	v.labels(os.Getenv("PCP_SYSCONF_DIR"))
	return v.code
}

// A verifier prints mistakes, and records whether one of them is an error.
type verifier struct {
	out     io.Writer
	code    int
	builtin open.BuiltinAgents
	notes   bool  // which pipe lines are for built-in agents
	noDSO   error // why this pmcd cannot run shared objects in C, or nil
}

func (v *verifier) say(severity string, pos fmt.Stringer, err error) {
	text := severity + ": " + err.Error()
	if p := pos.String(); p != "" {
		text = p + ": " + text
	}
	fmt.Fprintln(v.out, text)
}

func (v *verifier) warn(pos fmt.Stringer, err error) { v.say("Warning", pos, err) }

func (v *verifier) fail(pos fmt.Stringer, err error) {
	v.say("Error", pos, err)
	v.code = cli.ExitError
}

// conf checks pmcd.conf and its access file, and reports whether there is one.
// What the parser finds comes first, in the words of C pmcd.
func (v *verifier) conf(opt *cli.Options) bool {
	conf, err := pmcdconf.ParseFile(context.Background(), opt.Config, pmcdconf.Options{CredsRequired: opt.ReqAuth, All: true})
	if conf == nil {
		fmt.Fprintf(v.out, "pmcd verify %s: %s\n", opt.Config, reason(err))
		v.code = cli.ExitError
		return false
	}
	if err != nil {
		v.code = cli.ExitError
	}
	for _, p := range conf.Problems {
		fmt.Fprintln(v.out, p.PCP())
		if p.Pos.Line == 0 {
			continue
		}
		fmt.Fprintf(v.out, "\tat %v\n", p.Pos)
		if _, excerpt, ok := strings.Cut(p.Detail(), "\n"); ok {
			fmt.Fprintln(v.out, excerpt)
		}
	}
	if len(conf.Agents) == 0 && err == nil {
		// C pmcd differs: -v accepts such a file, and pmcd does not start with it.
		v.fail(pmcdconf.Pos{}, pmcdconf.NoAgents(opt.Config))
	}
	agents := slices.Concat(conf.Agents, conf.Rejected)
	for _, a := range agents {
		for _, err := range v.agent(&a) {
			v.warn(a.Pos, fmt.Errorf("agent %q: %w", a.Name, err))
		}
	}
	if opt.VerifyRights {
		v.rights(opt, agents)
	}
	return true
}

// rights warns of agents that run without root's rights.
func (v *verifier) rights(opt *cli.Options, list []pmcdconf.Agent) {
	var trust *privsep.TrustCheck
	if !opt.StandAlone() {
		trust = privsep.NewTrustCheck(opt.ConfigFile(), opt.User, os.Getenv)
	}
	if trust != nil && trust.Problem != nil {
		v.warn(pmcdconf.Pos{}, trust.Problem)
	}
	for _, a := range list {
		switch u := trust.Untrusted(&a, v.builtin.Has); {
		case u == nil:
		case u.Config:
			v.warn(pmcdconf.Pos{File: opt.Config}, fmt.Errorf("each agent %s; %s", trust.RunsAs(u), trust.Remedy(u)))
			return
		default:
			v.warn(a.Pos, fmt.Errorf("agent %q %s; %s", a.Name, trust.RunsAs(u), trust.Remedy(u)))
		}
	}
}

// reason returns the text of the cause of err, as in C programs.
func reason(err error) string {
	text := cause(err).Error()
	r, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[n:]
}

// names checks the name space, without which pmcd does not start, with the rights of the user
// that pmcd becomes.
func (v *verifier) names(opt *cli.Options) {
	var err error
	if rightsErr := v.asUser(opt, func() { _, err = opt.Namespace.Load() }); rightsErr != nil {
		v.warn(pmnsload.Pos{}, fmt.Errorf("the name space is not checked: %w", rightsErr))
	}
	var list pmnsload.ErrorList
	switch {
	case errors.As(err, &list):
		for _, e := range list {
			if errors.Is(e, pmnsload.ErrShell) {
				v.warn(e.Pos, errors.New("-v executes no command of #shell, so it does not check the name space from here on"))
			} else {
				v.fail(e.Pos, e.Err)
			}
		}
	case err != nil:
		v.fail(pmnsload.Pos{File: opt.Namespace.Path}, errors.New(reason(err)))
	}
}

// labels checks the label files and labels.conf in dir.
func (v *verifier) labels(dir string) {
	if dir == "" {
		return
	}
	warn := func(err error) {
		if e, ok := errors.AsType[*pmcdconf.Error](err); ok {
			v.warn(e.Pos, e.Err)
		} else {
			v.warn(pmcdconf.Pos{}, err)
		}
	}
	if _, err := hostlabels.Load(dir, warn); err != nil && !errors.Is(err, fs.ErrNotExist) {
		warn(err)
	}
	if _, err := hostlabels.LoadConf(dir, warn); err != nil && !errors.Is(err, fs.ErrNotExist) {
		warn(err)
	}
}
