package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/kube/kubetest"
	"github.com/eppctl/eppctl/internal/logtest"
	"github.com/eppctl/eppctl/internal/nettest"
)

func TestSettingsOfACluster(t *testing.T) {
	engines := start(t, serveOptions(1)) // for its patience
	t.Run("named and not there", func(t *testing.T) {
		k := inCluster(t, kubetest.New(t), "chat")
		k.ConfigMap = kube.Name{Namespace: "serving", Name: "conf"}
		err := k.AwaitSettings(t.Context(), "", slog.New(slog.DiscardHandler))
		if err == nil || err.Error() != "there is no ConfigMap serving/conf with a key eppctl.yaml" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("by annotation", func(t *testing.T) {
		f := kubetest.New(t)
		p := kubetest.Pool("chat", "vllm", 8000)
		kubetest.Meta(p)["annotations"] = map[string]string{"eppctl.dev/config": "conf"}
		f.Put(kubetest.Pools, p)
		f.Put(kubetest.ConfigMaps, kubetest.ConfigMap("conf", "maxQueue: 7"))
		k := inCluster(t, f, "chat")
		if err := k.AwaitSettings(t.Context(), "", slog.New(slog.DiscardHandler)); err != nil || k.Settings.YAML != "maxQueue: 7" {
			t.Errorf("got %+v, %v", k.Settings, err)
		}
	})
	t.Run("by annotation, and not to be read", func(t *testing.T) {
		f := kubetest.New(t)
		p := kubetest.Pool("chat", "vllm", 8000)
		kubetest.Meta(p)["annotations"] = map[string]string{"eppctl.dev/config": "others"}
		f.Put(kubetest.Pools, p)
		f.Refuse(kubetest.ConfigMaps+"/others", 403)
		k := inCluster(t, f, "chat")
		_, refused := errors.AsType[*kube.RefusedSettingsError](k.ReadSettings(t.Context()))
		if !refused || k.Settings.Found || k.Settings.Name.Name != "others" {
			t.Errorf("got %+v, refused %t", k.Settings, refused)
		}
	})
	t.Run("no pool yet", func(t *testing.T) {
		f := kubetest.New(t)
		f.Put(kubetest.Pools, kubetest.Pool("other", "vllm", 8000))
		k := inCluster(t, f, "chat")
		if err := k.AwaitSettings(t.Context(), "", slog.New(slog.DiscardHandler)); err != nil || k.Settings.Found {
			t.Errorf("got %+v, %v", k.Settings, err)
		}
	})
	t.Run("an API server that is away: it lives and waits", func(t *testing.T) {
		f := kubetest.New(t)
		f.Put(kubetest.ConfigMaps, kubetest.ConfigMap("conf", "maxQueue: 7"))
		f.Refuse("*", 503)
		k := inCluster(t, f, "chat")
		k.ConfigMap = kube.Name{Namespace: "serving", Name: "conf"}
		address := nettest.Free(t)
		var log logtest.Log
		done := make(chan error, 1)
		go func() { done <- k.AwaitSettings(t.Context(), address, slog.New(slog.NewTextHandler(&log, nil))) }()
		engines.until("it lives", func() bool {
			res, err := http.Get("http://" + address + "/healthz")
			if err != nil {
				return false
			}
			res.Body.Close()
			return res.StatusCode == http.StatusOK
		})
		engines.until("it says so", func() bool { return strings.Contains(log.String(), "does not tell the settings yet") })
		f.Refuse("*", 0)
		if err := <-done; err != nil || k.Settings.YAML != "maxQueue: 7" {
			t.Errorf("got %+v, %v", k.Settings, err)
		}
		if ln, err := open(address); err != nil {
			t.Errorf("the address is not free again: %v", err)
		} else {
			ln.Close()
		}
	})
}

// A refusal counts as an answer when it lasts, unless a flag names the ConfigMap.
func TestSettingsThatAreRefused(t *testing.T) {
	const long = time.Hour + time.Second/2
	refuse := func(context.Context) error { return new(kube.RefusedSettingsError) }
	for _, c := range []struct {
		name   string
		flag   kube.Name
		waits  time.Duration
		gaveUp error
	}{
		{"by annotation", kube.Name{}, deniedFor, nil},
		{"by flag", kube.Name{Namespace: "serving", Name: "others"}, long, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), long)
				defer cancel()
				began := time.Now()
				err := (&Kube{ConfigMap: c.flag}).awaitSettings(ctx, refuse, slog.New(slog.DiscardHandler))
				if took := time.Since(began); !errors.Is(err, c.gaveUp) || took != c.waits {
					t.Errorf("%v after %s, want %v after %s", err, took, c.gaveUp, c.waits)
				}
			})
		})
	}
}

func TestSettingsThatChange(t *testing.T) {
	conf := kube.Name{Namespace: "serving", Name: "conf"}
	before := kube.SettingsMap{Name: conf, Found: true, YAML: "maxQueue: 1"}
	for _, c := range []struct {
		name    string
		flag    bool
		file    bool
		now     kube.SettingsMap
		unknown bool
		says    string // "" = nothing
	}{
		{"nothing", false, false, before, false, ""},
		{"other ones", false, false, kube.SettingsMap{Name: conf, Found: true, YAML: "maxQueue: 2"}, false, "ConfigMap serving/conf has changed: restart the picker to apply it"},
		{"wrong ones", false, false, kube.SettingsMap{Name: conf, Found: true, YAML: "maxQueue: 2\nmaxQeue: 3"}, false, "would not start with it: ConfigMap serving/conf: line 2: "},
		{"ones that can't be", false, false, kube.SettingsMap{Name: conf, Found: true, YAML: "maxUtilization: -1"}, false, "would not start with it: "},
		{"gone, by annotation", false, false, kube.SettingsMap{Name: conf}, false, "after a restart the defaults are in force"},
		{"gone, by flag", true, false, kube.SettingsMap{Name: conf}, false, "is gone: the picker would not start again"},
		{"no longer named", false, false, kube.SettingsMap{}, false, "names no ConfigMap any more"},
		{"not read yet", false, false, kube.SettingsMap{Name: conf}, true, ""},
		{"a file goes before", false, true, kube.SettingsMap{Name: conf, Found: true, YAML: "maxQueue: 2"}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts := &Kube{Cluster: &kube.Cluster{}, Settings: before, ConfigFile: c.file}
			if c.flag {
				opts.ConfigMap = conf
			}
			var log strings.Builder
			k, _ := fleetOf(t, opts, &log)
			s := &kube.State{Synced: true, Settings: c.now, SettingsKnown: !c.unknown, Pools: []kube.PoolState{{Pool: new(kube.InferencePool)}}}
			for range 3 {
				k.compareSettings(s)
			}
			if got := strings.Count(log.String(), "\n"); got > 1 || got == 1 != (c.says != "") || !strings.Contains(log.String(), c.says) {
				t.Errorf("it says %q, want %q once", log.String(), c.says)
			}
			if _, changed := k.now(); changed != (c.says != "") {
				t.Errorf("changed %t", changed)
			}
		})
	}
}
