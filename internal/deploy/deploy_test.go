package deploy

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/eppctl/eppctl/internal/golden"
)

// chat are the options of a test, changed by change.
func chat(change func(*Options)) *Options {
	o := Default()
	o.Namespace, o.Pool, o.Selector = "inference", "chat", map[string]string{"app": "vllm"}
	if change != nil {
		change(&o)
	}
	return &o
}

// installs are one of each kind of install.
var installs = map[string]*Options{
	"small": chat(nil),
	"replicas": chat(func(o *Options) {
		o.Replicas, o.ReportTokenSecret, o.Monitor, o.PrometheusNamespace = 3, "chat-reports", "service", "observability"
		o.TargetPorts, o.Preset, o.Memory = []int{8000, 8001}, "rag", "1500Mi"
		o.Selector = map[string]string{"app": "vllm", "example.com/tier": ""}
		o.TLSSecret = "chat-tls"
	}),
	"standby": chat(func(o *Options) {
		o.Replicas, o.LeaderElect, o.AdminAuth, o.Monitor, o.Plaintext = 2, true, true, "pod", true
		o.ReportTokenSecret, o.RestrictEgress = "chat-reports", true
	}),
	"route": chat(func(o *Options) { o.Gateway, o.Only = "gateways/public", []string{"httproute", "inferencepool"} }),
	// Names that YAML would take for something else.
	"names": chat(func(o *Options) { o.Pool, o.Name, o.Namespace, o.Gateway = "no", "null", "1", "true" }),
}

func TestManifests(t *testing.T) {
	cases := maps.Clone(installs)
	for _, class := range GatewayClasses {
		cases["gateway-"+class] = chat(func(o *Options) {
			o.GatewayClass = class
			o.Skip = []string{"Deployment", "Role", "RoleBinding", "ServiceAccount", "ConfigMap", "PodDisruptionBudget", "NetworkPolicy", "InferencePool"}
		})
	}
	for name, o := range cases {
		t.Run(name, func(t *testing.T) {
			if err := o.Validate(); err != nil {
				t.Fatal(err)
			}
			files, err := o.Manifests()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				objectOf(t, f)
			}
			golden.Equal(t, "testdata/"+name+".yaml", Stream(files))
		})
	}
}

type object struct {
	APIVersion, Kind string
	Metadata         struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Spec map[string]any
}

// objectOf reads a manifest, strictly: nothing may stand twice in it.
func objectOf(t *testing.T, f File) object {
	t.Helper()
	var o object
	if err := yaml.Unmarshal([]byte(f.Text), &o, yaml.DisallowUnknownFields); err != nil && !strings.Contains(err.Error(), "unknown field") {
		t.Fatalf("%s: %v", f.Name, err)
	}
	if o.APIVersion == "" || o.Kind == "" || o.Metadata.Name == "" {
		t.Fatalf("%s is no object:\n%s", f.Name, f.Text)
	}
	return o
}

func TestNamesStayStrings(t *testing.T) {
	files, err := installs["names"].Manifests()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{"InferencePool": "no", "HTTPRoute": "no"}
	for _, f := range files {
		o := objectOf(t, f)
		want, ok := names[o.Kind]
		if !ok {
			want = "null"
		}
		if o.Metadata.Name != want || o.Metadata.Namespace != "1" || o.Metadata.Labels["eppctl.dev/pool"] != "no" {
			t.Errorf("%s: %+v", f.Name, o.Metadata)
		}
	}
}

func TestEveryTemplateHasItsPlace(t *testing.T) {
	entries, err := fs.ReadDir(chart, "chart/templates")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{definitions, notes}
	for _, name := range order {
		want = append(want, name+".yaml")
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files of the chart (-in order +there):\n%s", diff)
	}
}

func TestChartIsTheTemplates(t *testing.T) {
	o := chat(func(o *Options) { o.Version, o.Skip = "v1.2.3", []string{"servicemonitor"} })
	files, err := o.Helm()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if path.Dir(f.Name) == "templates" && f.Text != template(path.Base(f.Name)) {
			t.Errorf("%s is not the template", f.Name)
		}
		if f.Name == "templates/servicemonitor.yaml" {
			t.Error("a kind that was skipped is there")
		}
	}
	for i, name := range []string{"Chart.yaml", "README.md", "values.yaml", "values.schema.json"} {
		if files[i].Name != name {
			t.Fatalf("%s in the place of %s", files[i].Name, name)
		}
		golden.Equal(t, "testdata/helm-"+name, files[i].Text)
	}
}

// Every value has its type and its words; what Helm makes of the schema is tested in
// internal/e2e/render.
func TestEveryValueIsExplained(t *testing.T) {
	for _, v := range chat(nil).values() {
		if v.schema["type"] == nil {
			t.Errorf("%s has no type", v.name)
		}
		if v.comment == "" {
			t.Errorf("nothing is said of %s", v.name)
		}
	}
}

func TestKustomizationListsEveryFile(t *testing.T) {
	files, err := installs["small"].Kustomize()
	if err != nil {
		t.Fatal(err)
	}
	last := len(files) - 1
	var kustomization struct{ Resources []string }
	if err := yaml.Unmarshal([]byte(files[last].Text), &kustomization); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files[:last] {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff(names, kustomization.Resources); diff != "" || files[last].Name != "kustomization.yaml" {
		t.Errorf("%s (-files +listed):\n%s", files[last].Name, diff)
	}
}

// The templates know what [Options.Validate] knows: it is not asked when Helm renders.
func TestTemplatesRefuseASelectorOfThePicker(t *testing.T) {
	for key, value := range map[string]string{"app.kubernetes.io/name": "eppctl", "app.kubernetes.io/instance": "chat-epp", "eppctl.dev/pool": "chat"} {
		o := chat(func(o *Options) { o.Selector = map[string]string{key: value} })
		if _, err := o.Manifests(); err == nil || !strings.Contains(err.Error(), "selector: it means the picker's own pods") {
			t.Errorf("%s=%s: error %v", key, value, err)
		}
		o.Selector[key] = "vllm"
		if _, err := o.Manifests(); err != nil {
			t.Errorf("%s=vllm: %v", key, err)
		}
	}
}

func TestNothingLeft(t *testing.T) {
	o := chat(func(o *Options) { o.Only = []string{"ClusterRole"} }) // without --admin-auth there is none
	if files, err := o.Manifests(); err == nil {
		t.Errorf("%d files and no error", len(files))
	}
}
