package render

import (
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"

	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/deploy"
	"github.com/eppctl/eppctl/internal/e2e/cluster"
	"github.com/eppctl/eppctl/score"
)

// What 'helm lint' looks at beyond what an API server does: the chart's own file, values
// that the schema takes, and templates that begin at the margin.
func TestLint(t *testing.T) {
	for _, i := range installs {
		t.Run(i.name, func(t *testing.T) {
			dir := files(t, "inference", i, "helm")
			c, err := loader.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.Validate(), checked(c, "")); err != nil {
				t.Error(err)
			}
			for _, source := range append(c.Metadata.Sources, c.Metadata.Home) {
				if u, err := url.Parse(source); err != nil || u.Scheme != "https" || u.Host == "" {
					t.Errorf("%q is no address: %v", source, err)
				}
			}
			for name, text := range rendered(t, dir, "") {
				if text[0] == ' ' || strings.Contains(text, "\t") || strings.Contains(text, " \n") {
					t.Errorf("%s has space where none should be:\n%s", name, text)
				}
			}
		})
	}
}

// verdict is what Helm says of a chart with these values: by its schema, and by its templates.
func verdict(t *testing.T, o *deploy.Options, values string) error {
	t.Helper()
	all, err := o.Helm()
	if err != nil {
		t.Fatal(err)
	}
	var buffered []*loader.BufferedFile
	for _, f := range all {
		buffered = append(buffered, &loader.BufferedFile{Name: f.Name, Data: []byte(f.Text)})
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		t.Fatal(err)
	}
	return checked(c, values)
}

func checked(c *chart.Chart, values string) error {
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return err
	}
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "release", Namespace: "inference", IsInstall: true}, nil)
	if err != nil {
		return err
	}
	_, err = engine.Engine{Strict: true}.Render(c, all)
	return err
}

func chat(change func(*deploy.Options)) *deploy.Options {
	o := deploy.Default()
	o.Namespace, o.Pool, o.Selector = "inference", "chat", map[string]string{"app": "vllm"}
	if change != nil {
		change(&o)
	}
	return &o
}

// Helm refuses, by the chart's schema or its templates, the values that the command refuses as flags, and
// no others.
func TestHelmRefusesWhatTheCommandRefuses(t *testing.T) {
	long := strings.Repeat("a", 300)
	selected := func(key, value string) func(*deploy.Options) {
		return func(o *deploy.Options) { o.Selector = map[string]string{key: value} }
	}
	for value, changes := range map[string]map[string]func(*deploy.Options){
		"pool": {
			"none": func(o *deploy.Options) { o.Pool, o.Name = "", "epp" }, "capitals": func(o *deploy.Options) { o.Pool = "Chat" },
			"64 letters": func(o *deploy.Options) { o.Pool, o.Name = long[:64], "a" }, "63 letters": func(o *deploy.Options) { o.Pool, o.Name = long[:63], "a" },
			"no room for -epp-peers": func(o *deploy.Options) { o.Pool = long[:54] }, "just room": func(o *deploy.Options) { o.Pool = long[:52] },
			"a digit first": func(o *deploy.Options) { o.Pool = "7b" }, "with a name": func(o *deploy.Options) { o.Pool, o.Name = "7b", "seven" },
		},
		"name": {
			"a digit first": func(o *deploy.Options) { o.Name = "7b" }, "a dot": func(o *deploy.Options) { o.Name = "a.b" },
			"57 letters": func(o *deploy.Options) { o.Name = long[:57] }, "58 letters": func(o *deploy.Options) { o.Name = long[:58] },
		},
		"selector": {
			"none": func(o *deploy.Options) { o.Selector = nil }, "a space": selected("a b", "c"), "a value /": selected("a", "/"),
			"a prefix": selected("example.com/a", "b_C.d"), "two prefixes": selected("example.com/a/b", "c"), "no value": selected("app", ""),
			"the picker's pool": selected("eppctl.dev/pool", "chat"), "the picker's name": selected("app.kubernetes.io/name", "eppctl"),
			"another name": selected("app.kubernetes.io/name", "vllm"),
			"an instance":  selected("app.kubernetes.io/instance", "vllm"),
			"the picker by two labels": func(o *deploy.Options) {
				o.Selector = map[string]string{"app.kubernetes.io/name": "eppctl", "app.kubernetes.io/instance": "chat-epp"}
			},
			"the picker's instance": selected("app.kubernetes.io/instance", "chat-epp"),
			"none, for reports":     func(o *deploy.Options) { o.Selector, o.Skip, o.ReportTokenSecret = nil, []string{"InferencePool"}, "s" },
			"none, and it is there": func(o *deploy.Options) { o.Selector, o.Skip = nil, []string{"InferencePool"} },
			"none, for the policy":  func(o *deploy.Options) { o.Selector, o.Skip, o.RestrictEgress = nil, []string{"InferencePool"}, true },
		},
		"targetPorts": {
			"none": func(o *deploy.Options) { o.TargetPorts = nil }, "nine": func(o *deploy.Options) { o.TargetPorts = []int{1, 2, 3, 4, 5, 6, 7, 8, 9} },
			"one twice": func(o *deploy.Options) { o.TargetPorts = []int{8000, 8000} }, "65536": func(o *deploy.Options) { o.TargetPorts = []int{65536} },
			"0": func(o *deploy.Options) { o.TargetPorts = []int{0} }, "eight": func(o *deploy.Options) { o.TargetPorts = []int{1, 2, 3, 4, 5, 6, 7, 65535} },
		},
		"replicas": {
			"0": func(o *deploy.Options) { o.Replicas = 0 }, "101": func(o *deploy.Options) { o.Replicas = 101 }, "100": func(o *deploy.Options) { o.Replicas = 100 },
		},
		"preset": {"unknown": func(o *deploy.Options) { o.Preset = "fast" }, "known": func(o *deploy.Options) { o.Preset = "rag" }},
		"image": {
			"none": func(o *deploy.Options) { o.Image = "" }, "capitals": func(o *deploy.Options) { o.Image = "team/Eppctl:1" }, "a line": func(o *deploy.Options) { o.Image = "a\nb" },
			"a digest": func(o *deploy.Options) { o.Image = "registry:5000/a/b:1@sha256:" + strings.Repeat("0", 64) },
		},
		"cpu": {
			"none": func(o *deploy.Options) { o.CPU = "0m" }, "Mi": func(o *deploy.Options) { o.CPU = "1Mi" }, "a half": func(o *deploy.Options) { o.CPU = "0.5" },
			"two": func(o *deploy.Options) { o.CPU = "2" }, "too fine": func(o *deploy.Options) { o.CPU = "0.0001" },
		},
		"memory": {
			"MiB": func(o *deploy.Options) { o.Memory = "512MiB" }, "too little": func(o *deploy.Options) { o.Memory = "255Mi" },
			"decimal": func(o *deploy.Options) { o.Memory = "4G" }, "1Gi": func(o *deploy.Options) { o.Memory = "1Gi" }, "999Mi": func(o *deploy.Options) { o.Memory = "999Mi" },
		},
		"reportTokenSecret": {
			"_": func(o *deploy.Options) { o.ReportTokenSecret = "a_b" }, "long": func(o *deploy.Options) { o.ReportTokenSecret = long },
			"good": func(o *deploy.Options) { o.ReportTokenSecret = "reports.chat" },
		},
		"tlsSecret": {
			"_": func(o *deploy.Options) { o.TLSSecret = "a_b" }, "good": func(o *deploy.Options) { o.TLSSecret = "tls" },
		},
		"gateway": {
			"elsewhere":      func(o *deploy.Options) { o.Gateway = "gateways/public" },
			"without a name": func(o *deploy.Options) { o.Gateway = "gateways/" }, "made away": func(o *deploy.Options) { o.Gateway, o.GatewayClass = "gateways/public", "istio" },
			"an unknown class": func(o *deploy.Options) { o.GatewayClass = "nginx" }, "a class": func(o *deploy.Options) { o.GatewayClass = "gke" },
		},
		"plaintext": {
			"nothing for the Secret":   func(o *deploy.Options) { o.TLSSecret, o.Plaintext = "tls", true },
			"the Secret for reports":   func(o *deploy.Options) { o.TLSSecret, o.Plaintext, o.ReportTokenSecret = "tls", true, "s" },
			"the Secret for the admin": func(o *deploy.Options) { o.TLSSecret, o.Plaintext, o.AdminAuth = "tls", true, true },
			"kgateway":                 func(o *deploy.Options) { o.GatewayClass, o.Plaintext = "kgateway", true },
		},
		"monitor":             {"node": func(o *deploy.Options) { o.Monitor = "node" }, "pod": func(o *deploy.Options) { o.Monitor = "pod" }},
		"prometheusNamespace": {"none": func(o *deploy.Options) { o.PrometheusNamespace = "" }, "capitals": func(o *deploy.Options) { o.PrometheusNamespace = "A" }},
	} {
		for name, change := range changes {
			t.Run(value+"/"+name, func(t *testing.T) {
				o := chat(change)
				command, helm := o.Validate(), verdict(t, o, "")
				if (command == nil) != (helm == nil) {
					t.Errorf("the command says %v, Helm says %v", command, helm)
				}
				if helm != nil && !strings.Contains(strings.ToLower(helm.Error()), strings.ToLower(value)) && !strings.Contains(helm.Error(), "gatewayClass") {
					t.Errorf("it does not name %s: %v", value, helm)
				}
			})
		}
	}
}

// What is no option of the command is checked too.
func TestHelmChecksTheOtherValues(t *testing.T) {
	for values, want := range map[string]string{
		"{}":                               "",
		"cpu: 2":                           "",
		"cpu: 0":                           "cpu",
		"cpuLimit: 1500m":                  "",
		"cpuLimit: much":                   "cpuLimit",
		"global: {a: b}":                   "",
		"colour: red":                      "additional properties 'colour' not allowed",
		"pool: null":                       "missing property 'pool'",
		"replicas: '3'":                    "got string, want integer",
		"selector: {app: null, tier: gpu}": "",
		"{labels: {team: a}, selector: {app: null, team: a}}":                            "selector: it means the picker's own pods",
		"{labels: {team: a}, selector: {app: null, team: b}}":                            "",
		"{labels: {team: a}, selector: {app: null, team: ''}}":                           "",
		"{labels: {team: ''}, selector: {app: null, team: ''}}":                          "selector: it means the picker's own pods",
		"{labels: {team: a}, selector: {team: a}}":                                       "",
		"{labels: {app: vllm}}":                                                          "selector: it means the picker's own pods",
		"selector: {app: null, app.kubernetes.io/instance: chat-epp}":                    "selector: it means the picker's own pods",
		"{name: epp, selector: {app: null, app.kubernetes.io/instance: chat-epp}}":       "",
		"{pool: code, selector: {app: null, app.kubernetes.io/instance: code-epp}}":      "selector: it means the picker's own pods",
		"{labels: {team: '1'}, selector: {app: null, eppctl.dev/pool: chat, team: '1'}}": "selector: it means the picker's own pods",
		"config: {preset: fast}":                                                         "/config/preset",
		"config: {maxQueue: 20}":                                                         "",
		"config: {nonsense: 1}":                                                          "at '/config': additional properties 'nonsense' not allowed",
		"config: {extproc: {fallback: 1}}":                                               "at '/config/extproc': additional properties 'fallback' not allowed",
		"config: {models: [{name: a, alias: b}]}":                                        "at '/config/models/0': additional properties 'alias' not allowed",
		"config: {maxQueue: many}":                                                       "at '/config/maxQueue': got string, want integer",
		"config: {preset: null, weights: {load: 0.5, mine: 0.5}}":                        "",
		"config: {weights: {load: much}}":                                                "at '/config/weights/load': got string, want number",
		"imagePullPolicy: Sometimes":                                                     "imagePullPolicy",
		"extraArgs: [--log-level=debug]":                                                 "",
		"extraArgs: [serve]":                                                             "/extraArgs/0",
		"env: [{name: GOMEMLIMIT, value: 1GiB}]":                                         "/env/0/name",
		"env: [{name: EPPCTL_LOG_LEVEL, value: x}]":                                      "",
		"labels: {team: a}":                                                              "",
		"labels: {eppctl.dev/pool: b}":                                                   "/labels/eppctl.dev~1pool",
		"labels: {team: a b}":                                                            "/labels/team",
		"podAnnotations: {checksum/config: a}":                                           "/podAnnotations/checksum~1config",
		"drainSeconds: -1":                                                               "drainSeconds",
		"apiServerPorts: []":                                                             "apiServerPorts",
		"priorityClass: A":                                                               "priorityClass",
		"tolerations: {a: b}":                                                            "tolerations",
		"extraArgs: [\"--a\\nb\"]":                                                       "/extraArgs/0",
		"volumes: [{name: keys, emptyDir: {}}]":                                          "",
		"volumes: [{name: tls, emptyDir: {}}]":                                           "/volumes/0/name",
	} {
		t.Run(values, func(t *testing.T) {
			err := verdict(t, chat(nil), values)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

// What a picker prints as its settings can be those of the chart.
func TestHelmTakesAllSettings(t *testing.T) {
	c := config.InCluster()
	c.Models, c.AllowHeaders = []config.Model{{Name: "a", Aliases: []string{"b"}, Adapters: []string{"c"}}}, []string{"x-tenant"}
	c, err := c.Effective([]score.CustomWeight{{Name: "mine"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	values := "config:\n  preset: null\n  " + strings.ReplaceAll(string(text), "\n", "\n  ")
	if err := verdict(t, chat(nil), values); err != nil {
		t.Errorf("%v\n%s", err, values)
	}
}

// everything are values that are no options of the command.
const everything = `
imagePullPolicy: IfNotPresent
imagePullSecrets: [{name: registry}]
extraArgs: [--log-level=debug, --record-key=/etc/eppctl/key/key]
env: [{name: EPPCTL_MAX_BODY, value: 8MiB}]
drainSeconds: 60
restrictEgress: true
apiServerPorts: [16443]
cpu: 2
cpuLimit: "4"
memory: 1Gi
priorityClass: system-cluster-critical
labels: {team: a, cost: "42"}
podAnnotations: {example.com/a: "1"}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: inference, operator: Exists}]
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}
volumes: [{name: key, secret: {secretName: key}}]
volumeMounts: [{name: key, mountPath: /etc/eppctl/key, readOnly: true}]
`

// An API server takes what Helm makes of all values, each at its place.
func TestAPIServerTakesAllValues(t *testing.T) {
	c := cluster.Start(t)
	values := filepath.Join(t.TempDir(), "values.yaml")
	write(t, values, everything)
	for _, i := range installs[:3] {
		texts := rendered(t, files(t, c.Namespace, i, "helm"), values)
		deployment := texts["deployment.yaml"]
		for _, want := range []string{
			"imagePullPolicy: IfNotPresent", "- name: registry\n", "- --log-level=debug\n", "- --drain=60s\n", "terminationGracePeriodSeconds: 125\n",
			"name: EPPCTL_MAX_BODY\n", `value: "1000000000"`, "cpu: 2\n", "cpu: \"4\"\n", "memory: 1Gi\n", "priorityClassName: system-cluster-critical\n",
			"        team: a\n", `        cost: "42"`, `        example.com/a: "1"`, "kubernetes.io/os: linux\n", "- key: inference\n", "nodeAffinity:\n",
			"secretName: key\n", "mountPath: /etc/eppctl/key\n",
		} {
			if !strings.Contains(deployment, want) {
				t.Errorf("%s: %q is missing:\n%s", i.name, want, deployment)
			}
		}
		if !strings.Contains(texts["networkpolicy.yaml"], "policyTypes: [Ingress, Egress]") || !strings.Contains(texts["networkpolicy.yaml"], "- port: 16443\n") {
			t.Errorf("%s: %s", i.name, texts["networkpolicy.yaml"])
		}
		for name, text := range texts {
			if strings.HasPrefix(text, "apiVersion: monitoring") || strings.Contains(text, "k8s.io/v1\nkind: InferencePool") || strings.Contains(text, "\nkind: HTTPRoute") {
				continue // of definitions that this cluster lacks
			}
			text = strings.ReplaceAll(text, "elsewhere", c.Namespace)
			if err := c.DryRun(text); err != nil {
				t.Errorf("%s: %s: %v\n%s", i.name, name, err, text)
			}
			if !strings.Contains(text, "team: a\n") {
				t.Errorf("%s: %s has not the labels", i.name, name)
			}
		}
	}
}

// What Helm says after an install are commands, of this install.
func TestNotesTellTheNextCommands(t *testing.T) {
	for i, wants := range map[int][]string{
		0: {"kubectl wait -n inference deployment/chat-epp --for=condition=Available\n", "eppctl top --pool chat -n inference\n", "No route leads to the pool yet"},
		1: {"kubectl create secret generic -n inference reports --from-literal=token=", "kubectl create secret tls -n inference tls --cert"},
		2: {"kubectl get -n inference lease/chat-epp\n", "--admin-token-file"},
		7: {"kubectl get -n inference gateway/inference-gateway -o jsonpath="},
	} {
		notes := notesOf(t, files(t, "inference", installs[i], "helm"))
		for _, want := range wants {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: %q is missing:\n%s", installs[i].name, want, notes)
			}
		}
		if strings.Contains(notes, "\n\n\n") || slices.Contains(strings.Split(notes, "\n"), " ") {
			t.Errorf("%s: lines that are empty:\n%s", installs[i].name, notes)
		}
	}
}

// The chart tells Helm what it needs to know of it.
func TestChartIsComplete(t *testing.T) {
	c, err := loader.Load(files(t, "inference", installs[0], "helm"))
	if err != nil {
		t.Fatal(err)
	}
	m := c.Metadata
	if m.Home == "" || len(m.Sources) == 0 || m.AppVersion == "" || len(m.Keywords) == 0 || len(m.Annotations) == 0 || m.Description == "" {
		t.Errorf("%+v", m)
	}
	for version, ok := range map[string]bool{"v1.26.9": false, "v1.27.0": true, "v1.30.5-gke.100": true, "v1.34.0+k3s1": true} {
		if chartutil.IsCompatibleRange(m.KubeVersion, version) != ok {
			t.Errorf("Kubernetes %s: %v, by %q", version, !ok, m.KubeVersion)
		}
	}
	var values map[string]any
	for _, f := range c.Raw {
		if f.Name == "values.yaml" {
			err = yaml.Unmarshal(f.Data, &values)
		}
	}
	readme := ""
	for _, f := range c.Files {
		if f.Name == "README.md" {
			readme = string(f.Data)
		}
	}
	for name := range values {
		if !strings.Contains(readme, "\n| `"+name+"` | ") {
			t.Errorf("README.md does not tell of %s", name)
		}
	}
	if err != nil || len(values) < 20 {
		t.Errorf("%d values, %v", len(values), err)
	}
}
