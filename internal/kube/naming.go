package kube

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/eppctl/eppctl/internal/naming"
)

// Rules are what models and rewrites say of the names that clients use, for the
// given pools. What refers to another pool is left out; what can't be followed is
// there, and says why.
func Rules(models []*InferenceModel, rewrites []*InferenceModelRewrite, pools []Name) []naming.Rule {
	var rules []naming.Rule
	for _, m := range models {
		if pool, ours := poolOf(m.Namespace, &m.Spec.PoolRef, pools); ours {
			rules = append(rules, m.rule(pool))
		}
	}
	for _, w := range rewrites {
		if pool, ours := poolOf(w.Namespace, w.Spec.PoolRef, pools); ours {
			rules = append(rules, w.rules(pool)...)
		}
	}
	return rules
}

// poolOf is the pool that a resource refers to; "" is every pool. A reference is to
// a pool of the resource's own namespace.
func poolOf(namespace string, ref *ObjectRef, pools []Name) (pool string, ours bool) {
	if ref == nil {
		return "", slices.ContainsFunc(pools, func(p Name) bool { return p.Namespace == namespace })
	}
	name, kind := Name{namespace, ref.Name}, ref.Kind == "" || ref.Kind == "InferencePool"
	group := ref.Group == "" || ref.Group == PoolV1.Group || ref.Group == InferenceX.Group
	return name.String(), kind && group && slices.Contains(pools, name)
}

// source is what rules of the resource are told as.
func (m *InferenceModel) source() string { return "InferenceModel " + m.Namespace + "/" + m.Name }

func (w *InferenceModelRewrite) source() string {
	kind := "InferenceModelRewrite"
	if w.GroupVersionKind().Group == InferenceX.Group { // there may be one of the same name in each group
		kind += "." + InferenceX.Group
	}
	return kind + " " + w.Namespace + "/" + w.Name
}

// RuleSources are the resources of rules, by [naming.Rule.Source].
func RuleSources(models []*InferenceModel, rewrites []*InferenceModelRewrite) map[string]Object {
	sources := make(map[string]Object, len(models)+len(rewrites))
	for _, m := range models {
		sources[m.source()] = Object{m.APIVersion, "InferenceModel", Name{m.Namespace, m.Name}, m.UID}
	}
	for _, w := range rewrites {
		sources[w.source()] = Object{w.APIVersion, "InferenceModelRewrite", Name{w.Namespace, w.Name}, w.UID}
	}
	return sources
}

func (m *InferenceModel) rule(pool string) naming.Rule {
	r := naming.Rule{
		Source: m.source(), Created: m.CreationTimestamp.UTC(), Older: true,
		Model: m.Spec.ModelName, Pool: pool, Criticality: m.Spec.Criticality,
	}
	if r.Unusable = checkName("modelName", r.Model); r.Unusable != "" {
		r.Model = ""
	}
	for _, t := range m.Spec.TargetModels {
		r.Targets = append(r.Targets, target(t.Name, t.Weight))
		if why := checkName("the name of a target", t.Name); why != "" {
			r.Unusable = why
		}
	}
	return r
}

// rules are one for each name of each rule.
func (w *InferenceModelRewrite) rules(pool string) []naming.Rule {
	var rules []naming.Rule
	for i := range w.Spec.Rules {
		r := naming.Rule{
			Source: w.source(), Created: w.CreationTimestamp.UTC(), Pool: pool,
		}
		if len(w.Spec.Rules) > 1 {
			r.Order = i + 1
		}
		rules = append(rules, w.Spec.Rules[i].rules(r)...)
	}
	return rules
}

func (rule *RewriteRule) rules(r naming.Rule) []naming.Rule {
	for _, t := range rule.Targets {
		r.Targets = append(r.Targets, target(t.ModelRewrite, t.Weight))
		if why := checkName("modelRewrite", t.ModelRewrite); why != "" {
			r.Unusable = why
		}
	}
	if len(rule.Matches) == 0 {
		return []naming.Rule{r}
	}
	var rules []naming.Rule
	for _, match := range rule.Matches {
		exact := r
		switch model := match.Model; {
		case model == nil:
			exact.Unusable = "a match says no model"
		case model.Type != "" && model.Type != "Exact":
			exact.Unusable = fmt.Sprintf("a match is of the type %q, and only Exact is known", model.Type)
		case checkName("the value of a match", model.Value) != "":
			exact.Unusable = checkName("the value of a match", model.Value)
		default:
			exact.Model = model.Value
		}
		rules = append(rules, exact)
	}
	return rules
}

// target is one of a rule's. Weights are set for all targets or for none, says the
// schema; one without has 1.
func target(model string, weight *int32) naming.Target {
	t := naming.Target{Model: model, Weight: 1}
	if weight != nil {
		t.Weight = int(*weight)
	}
	return t
}

// maxModel bounds the name of a model, in bytes.
const maxModel = 1024

// checkName says why a text can't name a model; "" when it can.
func checkName(what, name string) string {
	switch {
	case name == "":
		return what + " is empty"
	case len(name) > maxModel:
		return fmt.Sprintf("%s is longer than %d bytes", what, maxModel)
	case strings.ContainsFunc(name, unicode.IsControl):
		return what + " has control characters"
	}
	return ""
}
