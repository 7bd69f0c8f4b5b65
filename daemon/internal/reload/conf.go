package reload

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pmcdconf"
)

// confState is the versions of the configuration that were read.
type confState struct {
	version  confVersion // the one in force
	rejected confVersion // the one that was rejected last, unless another was taken since
}

// A confVersion is what tells versions of the configuration apart: the times of
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

// readConf reads the configuration, unless it is still as it was seen before.
func readConf(path string, before confVersion, opt pmcdconf.Options) (r confRead) {
	if r.seen = confVersionOf(path); r.seen != before {
		r.conf, r.err = pmcdconf.ParseFile(context.Background(), path, opt)
	}
	return r
}

func (r *Reloader) confOptions() pmcdconf.Options {
	return pmcdconf.Options{CredsRequired: r.cfg.CredsRequired}
}

// describeRead logs what is wrong with a configuration that was read, used or
// not.
func (r *Reloader) describeRead(read confRead) {
	path := r.cfg.ConfigFile
	r.cfg.Debug.Log(diag.DebugAgents, "{path}: configFileTime={conf_time} accessFileTime={access_time}", "path", path,
		"conf_time", read.seen.conf, "access_time", read.seen.access)
	if read.conf == nil {
		return
	}
	for _, p := range read.conf.Problems {
		r.plain.Warn("{error}", "error", p.PCP(), "path", p.Pos.File, "line", p.Pos.Line)
	}
	if r.cfg.Debug.Shows(diag.DebugConfig) {
		for _, a := range read.conf.Agents {
			r.cfg.Debug.Log(diag.DebugConfig, "{position}: agent {agent:q} (dom {domain}) {spec}",
				"position", a.Pos, "agent", a.Name, "domain", a.Domain, "spec", fmt.Sprint(a))
		}
	}
	r.cfg.Debug.Log(diag.DebugRules, "{path}:\n{rules}", "path", path, "rules", read.conf.Access)
}

// reloadConf takes a new configuration if there is one, and starts agents that
// are down. It returns why it has left the configuration as it was, although
// that may have changed.
func (r *Reloader) reloadConf(ctx context.Context) error {
	var got confRead
	if r.cfg.Embedded == nil {
		var err error
		path, before, opt := r.cfg.ConfigFile, r.conf.version, r.confOptions()
		if got, err = await(ctx, func() confRead { return readConf(path, before, opt) }); err != nil {
			return err
		}
		if got.seen.conf.err != "" {
			r.plain.Error("ParseRestartAgents: {error}", "error", got.seen.conf.err)
			r.plain.Info("Configuration left unchanged")
			return errors.New(got.seen.conf.err)
		}
	}
	err := r.takeConf(ctx, got)
	agents := r.cfg.Routes.Load().Agents()
	r.warnChanged(agents)
	r.cfg.Agents.LogTable(agents)
	r.cfg.Clients.LogRules()
	return err
}

// takeConf puts in force what reloadConf has read, if it is new and valid.
func (r *Reloader) takeConf(ctx context.Context, got confRead) error {
	path := r.cfg.ConfigFile
	switch {
	case r.cfg.Embedded != nil:
		r.plain.Info("The embedded configuration stays in use until pmcd is started again")
		r.restartDead(ctx)
		return nil
	case got.seen == r.conf.version:
		r.plain.Info("Configuration file '{path}' unchanged", "path", path)
		r.restartDead(ctx)
		return nil
	}
	// The version of a file that is rejected does not become conf.version: as long as it
	// is not in force, each reload says so.
	//
	// C pmcd differs: the second reload takes it for unchanged.
	again := got.seen == r.conf.rejected
	r.conf.rejected = got.seen
	r.describeRead(got)
	var err error
	switch {
	case got.err != nil:
		//lint:ignore ST1005 PCP's text
		err = fmt.Errorf("Configuration file '%s' has errors", path)
		r.plain.Error("{error}", "error", err, "path", path)
		r.cfg.Log.Error("{error}", "error", got.err, "path", path)
		err = fmt.Errorf("%w: %w", err, got.err)
	case len(got.conf.Agents) == 0:
		//lint:ignore ST1005 PCP's text
		err = fmt.Errorf("Configuration file '%s' has no valid agents", path)
		r.plain.Error("{error}", "error", err, "path", path)
	default:
		r.conf.version, r.conf.rejected = got.seen, confVersion{}
		r.reconcile(ctx, got.conf)
		return nil
	}
	r.plain.Info("Configuration left unchanged")
	if again {
		r.restartDead(ctx)
	}
	return err
}
