package picker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/naming"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/internal/steering"
	"github.com/eppctl/eppctl/internal/tokens"
	"github.com/eppctl/eppctl/score"
)

// newNamed is a fleet of four pods: two serve llama in the pool ns/p, two qwen in
// ns/q. pod-01 has loaded the adapter billing-v2.
func newNamed(t *testing.T, change func(*Config), rules ...naming.Rule) *fleet {
	t.Helper()
	f := newFleet(t, 0, change)
	members := make([]pool.Member, 4)
	for i := range members {
		members[i] = pool.Member{Name: podName(i), Address: fmt.Sprintf("127.0.0.1:%d", 8000+i), Pool: []string{"ns/p", "ns/p", "ns/q", "ns/q"}[i]}
	}
	if err := f.pool.Set(members); err != nil {
		t.Fatal(err)
	}
	f.scrape(0)
	for i, target := range f.pool.Targets() {
		models := []engine.Model{{ID: []string{"llama", "llama", "qwen", "qwen"}[i]}}
		if i == 1 {
			models = append(models, engine.Model{ID: "billing-v2", Parent: "llama"})
			f.report(t, target.Name, func(r *report.Report) { r.Model, r.Adapters = "llama", []string{"billing-v2"} })
		}
		f.pool.Listed(target, models, nil)
	}
	table, _ := naming.NewTable(rules)
	f.SetNames(table)
	return f
}

func rule(name, model, pool string, targets ...naming.Target) naming.Rule {
	return naming.Rule{Source: "InferenceModel " + name, Older: true, Model: model, Pool: pool, Targets: targets}
}

func asking(model string) *Call {
	c := call(prompt(64, 1))
	c.Request.Model = model
	return c
}

func TestPickByName(t *testing.T) {
	billing := rule("ns/billing", "support-billing", "ns/p", naming.Target{Model: "billing-lora-v3", Weight: 1})
	for name, c := range map[string]struct {
		rules  []naming.Rule
		ask    string
		route  string
		served string // what the body has to name
		in     []string
		want   explain.Request
	}{
		"an adapter that no pod has loaded": {
			rules: []naming.Rule{billing}, ask: "support-billing", served: "billing-lora-v3", in: []string{"pod-00", "pod-01"},
			want: explain.Request{Base: "llama", Adapter: "billing-lora-v3", ModelUnchecked: true, Rewrite: &explain.Rewrite{
				To: "billing-lora-v3", By: "InferenceModel ns/billing", Targets: 1, Weight: 1, WeightSum: 1,
			}},
		},
		"a loaded adapter": {
			rules: []naming.Rule{rule("ns/billing", "support-billing", "ns/p", naming.Target{Model: "billing-v2", Weight: 1})},
			ask:   "support-billing", served: "billing-v2", in: []string{"pod-01"},
			want: explain.Request{Base: "llama", Adapter: "billing-v2", Rewrite: &explain.Rewrite{
				To: "billing-v2", By: "InferenceModel ns/billing", Targets: 1, Weight: 1, WeightSum: 1,
			}},
		},
		"a base model": {
			rules: []naming.Rule{rule("ns/chat", "chat", "ns/q", naming.Target{Model: "qwen", Weight: 1})},
			ask:   "chat", served: "qwen", in: []string{"pod-02", "pod-03"},
			want: explain.Request{Base: "qwen", Rewrite: &explain.Rewrite{
				To: "qwen", By: "InferenceModel ns/chat", Targets: 1, Weight: 1, WeightSum: 1,
			}},
		},
		"the name itself": {
			rules: []naming.Rule{rule("ns/qwen", "qwen", "ns/q")}, ask: "qwen", served: "qwen", in: []string{"pod-02", "pod-03"},
			want: explain.Request{Base: "qwen", Rewrite: &explain.Rewrite{To: "qwen", By: "InferenceModel ns/qwen"}},
		},
		"no rule for the name": {
			rules: []naming.Rule{billing}, ask: "qwen", served: "qwen", in: []string{"pod-02", "pod-03"}, want: explain.Request{Base: "qwen"},
		},
		"the route's name": {
			rules: []naming.Rule{billing}, ask: "what", route: "qwen", served: "qwen", in: []string{"pod-02", "pod-03"},
			want: explain.Request{Base: "qwen", Rewrite: &explain.Rewrite{To: "qwen", By: steering.Model}},
		},
		"a rule before the route": {
			rules: []naming.Rule{billing}, ask: "support-billing", route: "qwen", served: "billing-lora-v3", in: []string{"pod-00", "pod-01"},
			want: explain.Request{Base: "llama", Adapter: "billing-lora-v3", ModelUnchecked: true, Rewrite: &explain.Rewrite{
				To: "billing-lora-v3", By: "InferenceModel ns/billing", Targets: 1, Weight: 1, WeightSum: 1,
			}},
		},
		"a request without a name": {
			rules: []naming.Rule{{Source: "InferenceModelRewrite ns/all", Targets: []naming.Target{{Model: "qwen", Weight: 1}}}},
			route: "qwen", in: []string{"pod-00", "pod-01", "pod-02", "pod-03"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newNamed(t, nil, c.rules...)
			asked := asking(c.ask)
			asked.Route = c.route
			k := f.mustPick(t, asked)
			defer k.Done(end())
			if k.Served() != c.served || !strings.Contains(strings.Join(c.in, " "), k.Pod()) {
				t.Errorf("served as %q by %s, want %q by one of %v", k.Served(), k.Pod(), c.served, c.in)
			}
			rec, _ := f.newest()
			got := explain.Request{Base: rec.Request.Base, Adapter: rec.Request.Adapter, ModelUnchecked: rec.Request.ModelUnchecked, Rewrite: rec.Request.Rewrite}
			if diff := cmp.Diff(c.want, got); diff != "" || rec.Request.Model != c.ask {
				t.Errorf("the record of %q (-want +got):\n%s", rec.Request.Model, diff)
			}
		})
	}
}

// The adapter that a rule asks for takes part in the score, and only the rule's
// pools do in the decision.
func TestNameInTheDecision(t *testing.T) {
	f := newNamed(t, nil, rule("ns/billing", "support-billing", "ns/p", naming.Target{Model: "billing-v2", Weight: 1}))
	k := f.mustPick(t, asking("support-billing"))
	k.Done(end())
	rec, _ := f.newest()
	for i, want := range []struct {
		reason string
		match  bool
	}{{"", false}, {"", true}, {"not-in-pool", false}, {"not-in-pool", false}} {
		if c := rec.Candidates[i]; c.Reason != want.reason || c.Adapters.Match != want.match {
			t.Errorf("%s: reason %q, adapter loaded %v, want %q and %v", c.Pod, c.Reason, c.Adapters.Match, want.reason, want.match)
		}
	}
	if k.Pod() != "pod-01" || rec.Result.DecidedBy != "adapterMatch" {
		t.Errorf("%s, decided by %s, want pod-01 by adapterMatch", k.Pod(), rec.Result.DecidedBy)
	}
}

func TestNamesThatNobodyServes(t *testing.T) {
	reserved := rule("ns/later", "later", "ns/p", naming.Target{Model: "llama"})
	elsewhere := rule("ns/away", "away", "ns/r", naming.Target{Model: "llama", Weight: 1})
	f := newNamed(t, nil, reserved, elsewhere)
	for ask, want := range map[string]Refusal{
		"what":  {404, "model-not-found", `the model "what" does not exist`},
		"later": {404, "model-not-found", `the model "later" does not exist: InferenceModel ns/later reserves the name, and gives no target a weight`},
		"away": {503, "no-endpoints", "no endpoint can take the request: pod-00 not-in-pool, pod-01 not-in-pool, pod-02 not-in-pool, " +
			"pod-03 not-in-pool"},
	} {
		_, err := f.Pick(context.Background(), asking(ask))
		if got, ok := errors.AsType[*Refusal](err); !ok || *got != want {
			t.Errorf("%s: %v, want %+v", ask, err, want)
		}
	}
	c := asking("llama")
	c.Route = "what"
	if _, err := f.Pick(context.Background(), c); err == nil || err.Error() != `the model "what" does not exist` {
		t.Errorf("a route to no model: %v", err)
	}
}

// Full queues refuse what is Sheddable and let everything else in, unless the
// weights say otherwise of all.
func TestSheddable(t *testing.T) {
	of := func(model, criticality string) naming.Rule {
		r := rule("ns/"+model, model, "ns/p", naming.Target{Model: "llama", Weight: 1})
		r.Criticality = criticality
		return r
	}
	rules := []naming.Rule{of("critical", "Critical"), of("standard", "Standard"), of("batch", naming.Sheddable), of("unsaid", "")}
	for _, saturation := range []score.Saturation{score.Relax, score.Reject} {
		f := newNamed(t, func(c *Config) { c.Weights.Saturation = saturation }, rules...)
		f.scrape(100)
		for _, model := range []string{"critical", "standard", "batch", "unsaid"} {
			refused := model == "batch" || saturation == score.Reject
			k, err := f.Pick(context.Background(), asking(model))
			rec, _ := f.newest()
			r, _ := errors.AsType[*Refusal](err)
			switch {
			case (r != nil) != refused, refused && (r.Status != 429 || Dropped(ClientError(r)) != "rejected-saturated"):
				t.Errorf("saturation %s: %s is refused: %v, want %v", saturation, model, err, refused)
			case refused && strings.Contains(r.Detail, "Sheddable") != (model == "batch"):
				t.Errorf("%s is told %q", model, r.Detail)
			}
			want := saturation.String()
			if model == "batch" {
				want = "reject"
			}
			if rec.Weights.Saturation != want || rec.Weights.Generation != f.Weights().Generation {
				t.Errorf("saturation %s: the weights of %s say %s of generation %d", saturation, model, rec.Weights.Saturation, rec.Weights.Generation)
			}
			if replay, _, _ := explain.Replay(rec); !replay.Identical {
				t.Errorf("%s replays otherwise: %s", model, replay.Difference)
			}
			if k != nil {
				k.Done(end())
			}
		}
	}
}

// Weights that are changed meanwhile hold for what is Sheddable too.
func TestSheddableAfterNewWeights(t *testing.T) {
	batch := rule("ns/batch", "batch", "ns/p", naming.Target{Model: "llama", Weight: 1})
	batch.Criticality = naming.Sheddable
	f := newNamed(t, nil, batch)
	w := *f.Weights()
	w.MaxQueue = 7
	if _, err := f.SetWeights(w, 0); err != nil {
		t.Fatal(err)
	}
	f.mustPick(t, asking("batch")).Done(end())
	rec, _ := f.newest()
	if w := rec.Weights; w.MaxQueue != 7 || w.Generation != 1 || w.Saturation != "reject" {
		t.Errorf("weights %+v, want a queue of 7 and reject, of generation 1", w)
	}
}

// The tokeniser asks engines for the name that they know.
func TestTokeniserIsAskedByTheEnginesName(t *testing.T) {
	d := &asked{dictionary: dictionary{ids: prompt(64, 1), from: tokens.FromEngine}}
	f := newNamed(t, func(c *Config) { c.Tokeniser = d }, rule("ns/billing", "chat", "ns/p", naming.Target{Model: "billing-v2", Weight: 1}))
	f.mustPick(t, textCall(t, `{"model":"chat","prompt":"in words"}`)).Done(end())
	if want := "llama billing-v2"; d.models != want {
		t.Errorf("asked about %q, want %q", d.models, want)
	}
}

// asked remembers the models that it was asked about.
type asked struct {
	dictionary
	models string
}

func (a *asked) Tokens(ctx context.Context, q *tokens.Query) tokens.Prompts {
	a.models = q.Base + " " + q.Model
	return a.dictionary.Tokens(ctx, q)
}

// Each conflict is logged once, however often the same rules come, and of many
// only some are.
func TestConflictsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	f := newFleet(t, 1, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	table := func(losers int) *naming.Table {
		var rules []naming.Rule
		for i := range losers + 1 {
			r := rule(fmt.Sprintf("ns/m%03d", i), "chat", "ns/p")
			r.Created = time.Unix(int64(i), 0)
			rules = append(rules, r)
		}
		names, _ := naming.NewTable(rules)
		return names
	}
	lines := func() int {
		defer log.Reset()
		return strings.Count(log.String(), "\n")
	}
	for _, c := range []struct{ losers, lines int }{{2, 2}, {2, 0}, {3, 1}, {0, 0}, {100, mostConflicts + 1}} {
		f.SetNames(table(c.losers))
		if n := lines(); n != c.lines || f.Names().Len() != 1 {
			t.Errorf("%d rules that do not count gave %d lines, want %d", c.losers, n, c.lines)
		}
	}
	f.SetNames(nil)
	if lines() != 0 || f.Names() != nil {
		t.Error("no rules are some")
	}
}
