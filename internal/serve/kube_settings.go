package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/logkey"
)

// MissingSettingsError says that a ConfigMap which is named is not there.
type MissingSettingsError struct{ Settings kube.SettingsMap }

// Error implements error.
func (e *MissingSettingsError) Error() string {
	return fmt.Sprintf("there is no ConfigMap %s with a key %s", e.Settings.Name, kube.SettingsKey)
}

// ReadSettings reads the ConfigMap of settings. One that a flag names has to be there.
func (k *Kube) ReadSettings(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var err error
	k.Settings, err = k.Cluster.ReadSettings(ctx, k.ConfigMap, k.Pools[0])
	if err == nil && k.ConfigMap != (kube.Name{}) && !k.Settings.Found {
		return &MissingSettingsError{k.Settings}
	}
	return err
}

// deniedFor is how long a ConfigMap that the pool's annotation names must be refused to
// count as not there: with rights to its own alone, a picker is told no more of another.
// An API server that has just started refuses everything for a moment.
const deniedFor = 5 * time.Second

// AwaitSettings is [Kube.ReadSettings] for as long as it takes until the API server
// answers. Meanwhile the picker lives and is not ready, which is told at the address,
// if that is one that is known.
func (k *Kube) AwaitSettings(ctx context.Context, address string, log *slog.Logger) error {
	defer serveLiveness(address)()
	return k.awaitSettings(ctx, k.ReadSettings, log)
}

func (k *Kube) awaitSettings(ctx context.Context, read func(context.Context) error, log *slog.Logger) error {
	said, pause, wall := time.Time{}, time.Duration(0), clock.Wall{}
	var since time.Time // it is refused
	for {
		err := read(ctx)
		if _, missing := errors.AsType[*MissingSettingsError](err); err == nil || missing || ctx.Err() != nil {
			return err
		}
		_, refused := errors.AsType[*kube.RefusedSettingsError](err)
		switch {
		case !refused || k.ConfigMap != (kube.Name{}):
			since = time.Time{}
		case since.IsZero():
			since = wall.Now()
		case wall.Now().Sub(since) >= deniedFor:
			return nil
		}
		if wall.Now().Sub(said) > pause {
			log.Warn("the cluster does not tell the settings yet, and is asked again every second", slog.String(logkey.Error, err.Error()))
			said, pause = wall.Now(), min(2*pause+time.Minute, time.Hour)
		}
		if err := wall.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// serveLiveness answers health checks until it is told to stop: the process lives and
// is not ready. An address in use is told of later, with all others.
func serveLiveness(address string) (stop func()) {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "0" {
		return func() {}
	}
	ln, err := open(address)
	if err != nil {
		return func() {}
	}
	h := newHealth()
	server := &http.Server{Handler: h.handler(), ReadHeaderTimeout: 10 * time.Second, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln) // it ends when it is closed
	}()
	return func() {
		h.server.Stop()
		_ = server.Close()
		<-done
	}
}

// compareSettings notices that the settings are not those of the start any more: they
// are checked, and applied by a restart alone.
func (k *kubeFleet) compareSettings(s *kube.State) {
	if !s.SettingsKnown || k.opts.ConfigFile {
		return
	}
	now := s.Settings
	changed := now != k.opts.Settings
	k.mu.Lock()
	news := changed != k.changed || changed && k.last != now
	k.changed, k.last = changed, now
	k.mu.Unlock()
	if !news {
		return
	}
	note, warning := k.judgeSettings(now), false
	switch {
	case !changed:
		note = "the settings are again those that are in force"
	case note != "":
		warning = true
	default:
		note = fmt.Sprintf("ConfigMap %s has changed: restart the picker to apply it (kubectl rollout restart deployment)", now.Name)
	}
	if p := s.Pools[0].Pool; p != nil {
		k.events.Say(p, reasonConfig, note, warning)
		return
	}
	k.log.Warn("settings changed", slog.String(logkey.What, note))
}

// judgeSettings says what is wrong with new settings; "" = nothing.
func (k *kubeFleet) judgeSettings(m kube.SettingsMap) string {
	switch {
	case m.Name == (kube.Name{}):
		return "the pool names no ConfigMap any more: after a restart the defaults are in force"
	case !m.Found && k.opts.ConfigMap != (kube.Name{}):
		return fmt.Sprintf("ConfigMap %s with its key %s is gone: the picker would not start again", m.Name, kube.SettingsKey)
	case !m.Found:
		return fmt.Sprintf("the pool names ConfigMap %s, and there is none with a key %s: after a restart the defaults are in force", m.Name, kube.SettingsKey)
	}
	c, err := config.Read(SettingsSource(m.Name), []byte(m.YAML), config.InCluster())
	if err == nil {
		err = k.check(c)
	}
	if err != nil {
		return fmt.Sprintf("ConfigMap %s has changed, and the picker would not start with it: %v", m.Name, err)
	}
	return ""
}

// SettingsSource is what errors of a configuration call a ConfigMap.
func SettingsSource(name kube.Name) string { return "ConfigMap " + name.String() }
