package cmd

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/deploy"
)

// What the manifests start is a call of serve that it takes: flags, variables, and the
// settings in the ConfigMap.
func TestManifestsStartServe(t *testing.T) {
	for name, change := range map[string]func(*deploy.Options){
		"small":   func(o *deploy.Options) { o.Plaintext = true },
		"standby": func(o *deploy.Options) { o.Replicas, o.LeaderElect, o.AdminAuth = 2, true, true },
		"replicas": func(o *deploy.Options) {
			o.Replicas, o.ReportTokenSecret, o.TLSSecret, o.Preset = 3, "reports", "tls", "rag"
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := deploy.Default()
			o.Namespace, o.Pool, o.Selector = "inference", "chat", map[string]string{"app": "vllm"}
			o.Only = []string{"Deployment", "ConfigMap"}
			change(&o)
			files, err := o.Manifests()
			if err != nil {
				t.Fatal(err)
			}
			checkSettings(t, files[0].Text)
			checkCall(t, files[1].Text)
		})
	}
}

func checkSettings(t *testing.T, manifest string) {
	t.Helper()
	var m struct{ Data map[string]string }
	if err := yaml.Unmarshal([]byte(manifest), &m); err != nil {
		t.Fatal(err)
	}
	c, err := config.Read("", []byte(m.Data["eppctl.yaml"]), config.InCluster())
	if err != nil || c.Validate(nil) != nil || c.Preset == "" {
		t.Errorf("settings %q: %v, %v", m.Data, err, c.Validate(nil))
	}
}

func checkCall(t *testing.T, manifest string) {
	t.Helper()
	var d struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct {
						Args []string
						Env  []struct{ Name string }
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(manifest), &d); err != nil {
		t.Fatal(err)
	}
	container := d.Spec.Template.Spec.Containers[0]
	s, _, _ := cli.Test()
	found, rest, err := newRoot(&program{}, s).Find(container.Args)
	if err != nil || found.Name() != "serve" {
		t.Fatalf("%q is no call of serve: %v", container.Args, err)
	}
	if err := found.ParseFlags(rest); err != nil {
		t.Error(err)
	}
	if left := found.Flags().Args(); len(left) > 0 {
		t.Errorf("%q are no flags", left)
	}
	for _, variable := range container.Env {
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable.Name, envPrefix), "_", "-"))
		if strings.HasPrefix(variable.Name, envPrefix) && found.Flags().Lookup(flag) == nil {
			t.Errorf("%s stands for no flag", variable.Name)
		}
	}
}

func TestManifestsSayHowToInstallThem(t *testing.T) {
	for format, want := range map[string]string{
		formatYAML: "kubectl apply -f 'my dir; x'", formatKustomize: "kubectl apply -k 'my dir; x'", formatHelm: "helm install -n inference chat 'my dir; x'",
	} {
		f := manifestsFlags{format: format, dir: "my dir; x", options: deploy.Options{Namespace: "inference", Pool: "chat"}}
		if got := f.installed(); got != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
	}
}
