package reload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A confState has the versions of the configuration that were read.
type confState struct {
	version  confVersion // in use
	rejected confVersion // rejected last; zero if another one was accepted since
}

// A confVersion identifies a version of the configuration by the modification times of
// pmcd.conf and pmcd.conf.access.
type confVersion struct{ conf, access fileVersion }

func confVersionOf(path string) confVersion {
	s := confVersion{versionOf(path), versionOf(path + ".access")}
	s.conf.size, s.access.size = 0, 0
	return s
}

// A confRead is the result of reading the configuration.
type confRead struct {
	seen confVersion
	conf *pmcdconf.Config
	err  error
}

// readConf reads the configuration, unless its version is before. With the zero
// confVersion it always reads.
func readConf(ctx context.Context, path string, before confVersion, opt pmcdconf.Options) (r confRead) {
	if r.seen = confVersionOf(path); r.seen != before {
		r.conf, r.err = pmcdconf.ParseFile(ctx, path, opt)
	}
	return r
}

func (r *Reloader) confOptions() pmcdconf.Options {
	return pmcdconf.Options{CredsRequired: r.cfg.CredsRequired, Resolver: r.cfg.Resolver, OwnNameLater: true, All: true}
}

// describeRead logs the mistakes in a configuration, whether it is used or not: first in
// the words of C pmcd, then with their positions.
func (r *Reloader) describeRead(read confRead) {
	path := r.cfg.ConfigFile
	r.cfg.Debug.Log(diag.DebugAgents, "{path}: configFileTime={conf_time} accessFileTime={access_time}", "path", path,
		"conf_time", read.seen.conf, "access_time", read.seen.access)
	if read.conf == nil {
		return
	}
	for _, p := range read.conf.Problems {
		r.plain.Warn("{error}", "error", p.PCP(), "path", p.Pos.File, "line", p.Pos.Line, logtext.Event("conf_mistake"))
	}
	for _, p := range read.conf.Problems {
		if p.Pos.Line == 0 {
			continue
		}
		level := slog.LevelError
		if p.Warning {
			level = slog.LevelWarn
		}
		r.cfg.Log.Log(context.Background(), level, "{error}", "error", p, "path", p.Pos.File, "line", p.Pos.Line, logtext.Event("conf_mistake"))
	}
	if r.cfg.Debug.Shows(diag.DebugConfig) {
		for _, a := range read.conf.Agents {
			r.cfg.Debug.Log(diag.DebugConfig, "{position}: agent {agent:q} (dom {domain}) {spec}",
				"position", a.Pos, "agent", a.Name, "domain", a.Domain, "spec", fmt.Sprint(a))
		}
	}
	r.cfg.Debug.Log(diag.DebugRules, "{path}:\n{rules}", "path", path, "rules", logtext.Lines(fmt.Sprint(read.conf.Access)))
}

// reloadConf loads the configuration if it has changed, and starts agents that are down.
// It returns an error if it could not find out whether the configuration has changed, or if
// the new one is not used.
func (r *Reloader) reloadConf(ctx context.Context) error {
	var got confRead
	if r.cfg.Embedded == nil {
		var err error
		path, before, opt := r.cfg.ConfigFile, r.conf.version, r.confOptions()
		if len(*r.leftOut.Load()) > 0 { // hosts of rules that are left out may have addresses now
			before = confVersion{}
		}
		if got, err = await(ctx, r, "reads "+path, func() confRead { return readConf(ctx, path, before, opt) }); err != nil {
			return err
		}
		if got.seen.conf.err != "" {
			err := errors.New(got.seen.conf.err + "; the configuration that was read before stays in use: put the file back, then SIGHUP")
			r.plain.Error("ParseRestartAgents: {error}", "error", err, "path", path)
			r.plain.Info("Configuration left unchanged")
			return err
		}
	}
	err := r.takeConf(ctx, got)
	agents := r.cfg.Routes.Load().Agents()
	r.warnChanged(agents)
	r.cfg.Agents.LogTable(agents)
	r.cfg.Clients.LogRules()
	return err
}

// takeConf applies what reloadConf has read, if it is new and valid.
func (r *Reloader) takeConf(ctx context.Context, got confRead) error {
	path := r.cfg.ConfigFile
	switch {
	case r.cfg.Embedded != nil:
		r.plain.Info("The embedded configuration stays in use until pmcd is started again")
		r.restartDead(ctx)
		return nil
	case got.seen == r.conf.version && got.err == nil:
		// C pmcd differs: it does not look up hosts again.
		if got.conf != nil {
			r.describeRead(got)
			r.applyRules(ctx, got.conf)
		}
		r.plain.Info("Configuration file '{path}' unchanged", "path", path)
		r.restartDead(ctx)
		return nil
	}
	// The version of a rejected file does not become conf.version, so that each reload
	// reports the error again.
	//
	// C pmcd differs: the second reload treats the file as unchanged.
	again := got.seen == r.conf.rejected
	r.conf.rejected = got.seen
	r.describeRead(got)
	var err error
	switch {
	case got.err != nil:
		//lint:ignore ST1005 PCP's text
		err = fmt.Errorf("Configuration file '%s' has errors", path)
		r.plain.Error("{error}", "error", err, "path", path, logtext.Event("conf_rejected"))
		if got.conf == nil { // the file could not be read
			r.cfg.Log.Error("{error}", "error", got.err, "path", path, logtext.Event("conf_mistake"))
		}
		err = fmt.Errorf("%w: %w", err, got.err)
	case len(got.conf.Agents) == 0:
		//lint:ignore ST1005 PCP's text
		err = fmt.Errorf("Configuration file '%s' has no valid agents", path)
		r.plain.Error("{error}", "error", err, "path", path, logtext.Event("conf_rejected"))
	default:
		r.conf.version, r.conf.rejected = got.seen, confVersion{}
		r.reconcile(ctx, got.conf)
		return nil
	}
	r.plain.Info("Configuration left unchanged")
	if again {
		r.restartDead(ctx)
	}
	return fmt.Errorf("%w; the configuration that was read before stays in use: correct the file (pmcd -v shows its mistakes), then SIGHUP", err)
}
