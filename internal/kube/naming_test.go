package kube

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/eppctl/eppctl/internal/naming"
)

// object reads what an API server would send.
func object[T any](t *testing.T, text string) *T {
	t.Helper()
	o := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), o); err != nil {
		t.Fatal(err)
	}
	return o
}

var created = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

const (
	chatModel = `
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModel
metadata: {name: chat, namespace: prod, creationTimestamp: "2026-11-01T00:00:00Z"}
spec:
  modelName: support
  criticality: Sheddable
  poolRef: {group: inference.networking.k8s.io, kind: InferencePool, name: llama}
  targetModels: [{name: billing-v3, weight: 30}, {name: billing-v2, weight: 70}]
`
	chatRewrite = `
apiVersion: llm-d.ai/v1alpha2
kind: InferenceModelRewrite
metadata: {name: chat, namespace: prod, creationTimestamp: "2026-11-01T00:00:00Z"}
spec:
  poolRef: {name: llama}
  rules:
  - matches: [{model: {type: Exact, value: a}}, {model: {value: b}}]
    targets: [{modelRewrite: llama}]
  - targets: [{modelRewrite: qwen, weight: 0}]
`
)

var llama = []Name{{"prod", "other"}, {"prod", "llama"}}

func TestRulesOfModels(t *testing.T) {
	whole := naming.Rule{
		Source: "InferenceModel prod/chat", Created: created, Older: true, Model: "support", Pool: "prod/llama", Criticality: "Sheddable",
		Targets: []naming.Target{{Model: "billing-v3", Weight: 30}, {Model: "billing-v2", Weight: 70}},
	}
	with := func(change func(r *naming.Rule)) []naming.Rule {
		r := whole
		change(&r)
		return []naming.Rule{r}
	}
	for name, c := range map[string]struct {
		from, to string
		want     []naming.Rule
	}{
		"whole": {want: []naming.Rule{whole}},
		"without targets": {"targetModels: [{name: billing-v3, weight: 30}, {name: billing-v2, weight: 70}]", "", with(func(r *naming.Rule) {
			r.Targets = nil
		})},
		"without weights": {"{name: billing-v3, weight: 30}, {name: billing-v2, weight: 70}", "{name: m1}, {name: m2}", with(func(r *naming.Rule) {
			r.Targets = []naming.Target{{Model: "m1", Weight: 1}, {Model: "m2", Weight: 1}}
		})},
		"reserved": {"{name: billing-v3, weight: 30}, {name: billing-v2, weight: 70}", "{name: x, weight: 0}", with(func(r *naming.Rule) {
			r.Targets = []naming.Target{{Model: "x"}}
		})},
		"another pool":      {"name: llama", "name: qwen", nil},
		"another namespace": {"namespace: prod", "namespace: test", nil},
		"no pool":           {"kind: InferencePool,", "kind: Service,", nil},
		"a pool of others":  {"group: inference.networking.k8s.io", "group: example.com", nil},
		"no name": {"modelName: support", `modelName: ""`, with(func(r *naming.Rule) {
			r.Model, r.Unusable = "", "modelName is empty"
		})},
		"a name with control characters": {"modelName: support", `modelName: "a\nb"`, with(func(r *naming.Rule) {
			r.Model, r.Unusable = "", "modelName has control characters"
		})},
		"a target that is too long": {"{name: billing-v3, weight: 30}, {name: billing-v2, weight: 70}", "{name: " + strings.Repeat("x", 1025) + "}", with(func(r *naming.Rule) {
			r.Targets, r.Unusable = []naming.Target{{Model: strings.Repeat("x", 1025), Weight: 1}}, "the name of a target is longer than 1024 bytes"
		})},
	} {
		t.Run(name, func(t *testing.T) {
			if c.from != "" && !strings.Contains(chatModel, c.from) {
				t.Fatalf("the model has no %q", c.from)
			}
			m := object[InferenceModel](t, strings.Replace(chatModel, c.from, c.to, 1))
			if got := Rules([]*InferenceModel{m}, nil, llama); !reflect.DeepEqual(got, c.want) {
				t.Errorf("rules %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestRulesOfRewrites(t *testing.T) {
	of := func(order int, model string, targets ...naming.Target) naming.Rule {
		return naming.Rule{
			Source: "InferenceModelRewrite prod/chat", Order: order, Created: created, Model: model, Pool: "prod/llama", Targets: targets,
		}
	}
	toLlama, never := naming.Target{Model: "llama", Weight: 1}, naming.Target{Model: "qwen"}
	whole := []naming.Rule{of(1, "a", toLlama), of(1, "b", toLlama), of(2, "", never)}
	with := func(change func(rules []naming.Rule)) []naming.Rule {
		rules := slices.Clone(whole)
		change(rules)
		return rules
	}
	all := func(change func(r *naming.Rule)) []naming.Rule {
		return with(func(rules []naming.Rule) {
			for i := range rules {
				change(&rules[i])
			}
		})
	}
	for name, c := range map[string]struct {
		from, to string
		want     []naming.Rule
	}{
		"whole":        {want: whole},
		"every pool":   {"poolRef: {name: llama}", "", all(func(r *naming.Rule) { r.Pool = "" })},
		"another pool": {"poolRef: {name: llama}", "poolRef: {name: qwen}", nil},
		"older group": {"apiVersion: llm-d.ai", "apiVersion: inference.networking.x-k8s.io", all(func(r *naming.Rule) {
			r.Source = "InferenceModelRewrite.inference.networking.x-k8s.io prod/chat"
		})},
		"one rule": {"- targets: [{modelRewrite: qwen, weight: 0}]", "", []naming.Rule{of(0, "a", toLlama), of(0, "b", toLlama)}},
		"another type": {"type: Exact", "type: Prefix", with(func(rules []naming.Rule) {
			rules[0].Model, rules[0].Unusable = "", `a match is of the type "Prefix", and only Exact is known`
		})},
		"no model": {"{model: {value: b}}", "{}", with(func(rules []naming.Rule) {
			rules[1].Model, rules[1].Unusable = "", "a match says no model"
		})},
		"no value": {"value: b", `value: ""`, with(func(rules []naming.Rule) {
			rules[1].Model, rules[1].Unusable = "", "the value of a match is empty"
		})},
		"no target's name": {"modelRewrite: qwen", `modelRewrite: ""`, with(func(rules []naming.Rule) {
			rules[2].Targets, rules[2].Unusable = []naming.Target{{}}, "modelRewrite is empty"
		})},
	} {
		t.Run(name, func(t *testing.T) {
			if c.from != "" && !strings.Contains(chatRewrite, c.from) {
				t.Fatalf("the rewrite has no %q", c.from)
			}
			w := object[InferenceModelRewrite](t, strings.Replace(chatRewrite, c.from, c.to, 1))
			if got := Rules(nil, []*InferenceModelRewrite{w}, llama); !reflect.DeepEqual(got, c.want) {
				t.Errorf("rules %+v, want %+v", got, c.want)
			}
		})
	}
}
