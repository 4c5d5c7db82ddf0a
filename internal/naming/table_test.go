package naming

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	oldest = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	newer  = oldest.Add(time.Hour)
)

// to makes targets of names and weights.
func to(pairs ...any) []Target {
	var targets []Target
	for i := 0; i < len(pairs); i += 2 {
		targets = append(targets, Target{pairs[i].(string), pairs[i+1].(int)})
	}
	return targets
}

// model is a rule of an InferenceModel, rewrite one of an InferenceModelRewrite.
func model(name, asked, pool string, created time.Time, targets []Target) Rule {
	return Rule{Source: "InferenceModel " + name, Older: true, Model: asked, Pool: pool, Created: created, Targets: targets}
}

func rewrite(name string, order int, asked, pool string, created time.Time, targets []Target) Rule {
	return Rule{Source: "InferenceModelRewrite " + name, Order: order, Model: asked, Pool: pool, Created: created, Targets: targets}
}

func TestName(t *testing.T) {
	sheddable := model("ns/a", "chat", "ns/p", oldest, nil)
	sheddable.Criticality = Sheddable
	for name, c := range map[string]struct {
		rules     []Rule
		ask       string
		want      Naming
		unnamed   bool
		conflicts []string
	}{
		"exact": {
			rules: []Rule{model("ns/a", "chat", "ns/p", oldest, to("llama", 1))},
			ask:   "chat", want: Naming{To: "llama", By: "InferenceModel ns/a", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p"}},
		},
		"another name": {
			rules: []Rule{model("ns/a", "chat", "ns/p", oldest, to("llama", 1))},
			ask:   "chats", unnamed: true,
		},
		"no name": {
			rules: []Rule{rewrite("ns/a", 1, "", "ns/p", oldest, to("llama", 1))},
			ask:   "", unnamed: true,
		},
		"without targets the name stays": {
			rules: []Rule{sheddable},
			ask:   "chat", want: Naming{To: "chat", By: "InferenceModel ns/a", Pools: []string{"ns/p"}, Criticality: Sheddable},
		},
		"generic": {
			rules: []Rule{rewrite("ns/a", 2, "", "ns/p", oldest, to("llama", 1))},
			ask:   "what", want: Naming{To: "llama", By: "InferenceModelRewrite ns/a rule 2", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p"}},
		},
		"exact before generic, however old": {
			rules: []Rule{rewrite("ns/a", 1, "", "ns/p", oldest, to("any", 1)), rewrite("ns/b", 1, "chat", "ns/p", newer, to("llama", 1))},
			ask:   "chat", want: Naming{To: "llama", By: "InferenceModelRewrite ns/b rule 1", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p"}},
		},
		"an exact rule of the older kind before a generic one": {
			rules: []Rule{rewrite("ns/a", 1, "", "ns/p", oldest, to("any", 1)), model("ns/b", "chat", "ns/p", newer, to("llama", 1))},
			ask:   "chat", want: Naming{To: "llama", By: "InferenceModel ns/b", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p"}},
		},
		"the oldest": {
			rules: []Rule{model("ns/a", "chat", "ns/p", newer, to("a", 1)), model("ns/b", "chat", "ns/p", oldest, to("b", 1))},
			ask:   "chat", want: Naming{To: "b", By: "InferenceModel ns/b", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p"}},
			conflicts: []string{`InferenceModel ns/a does not count for the model "chat": InferenceModel ns/b is older`},
		},
		"as old": {
			rules: []Rule{model("ns/b", "chat", "ns/p", oldest, to("b", 1)), model("ns/a", "chat", "ns/p", oldest, to("a", 1))},
			ask:   "chat", want: Naming{To: "a", By: "InferenceModel ns/a", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p"}},
			conflicts: []string{`InferenceModel ns/b does not count for the model "chat": InferenceModel ns/a is as old, and its name comes first`},
		},
		"the first rule": {
			rules: []Rule{rewrite("ns/a", 10, "", "ns/p", oldest, to("ten", 1)), rewrite("ns/a", 2, "", "ns/p", oldest, to("two", 1))},
			ask:   "chat", want: Naming{To: "two", By: "InferenceModelRewrite ns/a rule 2", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p"}},
			conflicts: []string{"InferenceModelRewrite ns/a rule 10 does not count for all names: InferenceModelRewrite ns/a rule 2 comes before it"},
		},
		"a rule that names the model twice": {
			rules: []Rule{rewrite("ns/a", 1, "chat", "ns/p", oldest, to("a", 1)), rewrite("ns/a", 1, "chat", "ns/p", oldest, to("a", 1))},
			ask:   "chat", want: Naming{To: "a", By: "InferenceModelRewrite ns/a rule 1", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p"}},
		},
		"the newer kind, however young": {
			rules: []Rule{model("ns/a", "chat", "ns/p", oldest, to("a", 1)), rewrite("ns/b", 0, "chat", "ns/p", newer, to("b", 1))},
			ask:   "chat", want: Naming{To: "b", By: "InferenceModelRewrite ns/b", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p"}},
			conflicts: []string{`InferenceModel ns/a does not count for the model "chat": InferenceModelRewrite ns/b is of the newer kind`},
		},
		"two pools serve the name": {
			rules: []Rule{model("ns/b", "chat", "ns/q", newer, to("llama", 1)), model("ns/a", "chat", "ns/p", oldest, to("llama", 1))},
			ask:   "chat", want: Naming{To: "llama", By: "InferenceModel ns/a", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p", "ns/q"}},
		},
		"two pools with other targets": {
			rules: []Rule{
				model("ns/a", "chat", "ns/p", oldest, to("a", 1)), model("ns/b", "chat", "ns/q", newer, to("b", 1)),
				model("ns/c", "chat", "ns/q", newer, to("a", 1)),
			},
			ask: "chat", want: Naming{To: "a", By: "InferenceModel ns/a", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p"}},
			conflicts: []string{
				`InferenceModel ns/b does not count for the model "chat": InferenceModel ns/a goes before it, with other targets or criticality, for the pool ns/p`,
				`InferenceModel ns/c does not count for the model "chat": InferenceModel ns/b is as old, and its name comes first`,
			},
		},
		"one pool and every pool": {
			rules: []Rule{model("ns/a", "chat", "ns/p", oldest, to("llama", 1)), rewrite("ns/b", 0, "chat", "", newer, to("llama", 1))},
			ask:   "chat", want: Naming{To: "llama", By: "InferenceModelRewrite ns/b", Weight: 1, Sum: 1, Targets: 1},
		},
		"a rule that can't be followed": {
			rules: []Rule{
				{Source: "InferenceModelRewrite ns/a", Model: "chat", Created: oldest, Unusable: "it has no target's name"},
				model("ns/b", "chat", "ns/p", newer, to("llama", 1)),
			},
			ask: "chat", want: Naming{To: "llama", By: "InferenceModel ns/b", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p"}},
			conflicts: []string{`InferenceModelRewrite ns/a does not count for the model "chat": it has no target's name`},
		},
		"a reserved name": {
			rules: []Rule{model("ns/a", "chat", "ns/p", oldest, to("llama", 0, "qwen", -1))},
			ask:   "chat", want: Naming{By: "InferenceModel ns/a", Targets: 2, Pools: []string{"ns/p"}},
		},
		"a target is not looked up": {
			rules: []Rule{model("ns/a", "chat", "ns/p", oldest, to("next", 1)), model("ns/b", "next", "ns/p", oldest, to("llama", 1))},
			ask:   "chat", want: Naming{To: "next", By: "InferenceModel ns/a", Weight: 1, Sum: 1, Targets: 1, Pools: []string{"ns/p"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			table, conflicts := NewTable(c.rules)
			got, named := table.Name(c.ask, "id")
			if named == c.unnamed || !reflect.DeepEqual(got, c.want) {
				t.Errorf("named %v %+v, want %+v", named, got, c.want)
			}
			var told []string
			for _, c := range conflicts {
				told = append(told, c.String())
			}
			if !slices.Equal(told, c.conflicts) || !slices.Equal(table.Conflicts(), conflicts) {
				t.Errorf("conflicts %q, want %q", told, c.conflicts)
			}
		})
	}
}

func TestNoTable(t *testing.T) {
	var none *Table
	if n, ok := none.Name("chat", "id"); ok || none.Len() != 0 || none.Entries() != nil || none.Conflicts() != nil {
		t.Errorf("no table named %+v", n)
	}
}

func TestEntries(t *testing.T) {
	chat := model("ns/a", "chat", "ns/p", oldest, to("llama", 3, "qwen", 2*MaxWeight))
	chat.Criticality = Sheddable
	table, _ := NewTable([]Rule{rewrite("ns/b", 2, "", "", oldest, to("any", 1)), chat, model("ns/c", "also", "ns/q", oldest, nil)})
	want := []Entry{
		{By: "InferenceModelRewrite ns/b rule 2", Targets: to("any", 1)},
		{Model: "also", By: "InferenceModel ns/c", Pools: []string{"ns/q"}},
		{Model: "chat", By: "InferenceModel ns/a", Targets: to("llama", 3, "qwen", MaxWeight), Pools: []string{"ns/p"}, Criticality: Sheddable},
	}
	if got := table.Entries(); !reflect.DeepEqual(got, want) || table.Len() != len(want) {
		t.Errorf("entries %+v, want %+v", got, want)
	}
	if chat.Targets[1].Weight != 2*MaxWeight {
		t.Error("the caller's rule was changed")
	}
}

// Of 10,000 IDs each target gets its weight's share to within one percentage point,
// whatever the IDs look like, and the same ID gets the same target each time.
func TestSplit(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 1))
	ids := map[string]func(i int) string{
		"random": func(int) string { return fmt.Sprintf("%016x", random.Uint64()) },
		"counts": func(i int) string { return fmt.Sprintf("request-%d", i) },
		"short":  func(i int) string { return fmt.Sprint(i) },
	}
	for name, weights := range map[string][]int{
		"one": {7}, "even": {1, 1}, "three": {1, 1, 1}, "canary": {99, 1}, "uneven": {70, 0, 25, 5}, "large": {MaxWeight, MaxWeight - 1, 3},
	} {
		for kind, id := range ids {
			t.Run(name+" "+kind, func(t *testing.T) {
				rule, sum := model("ns/a", "chat", "ns/p", oldest, nil), 0
				for i, w := range weights {
					rule.Targets = append(rule.Targets, Target{fmt.Sprint("m", i), w})
					sum += w
				}
				table, _ := NewTable([]Rule{rule})
				again, _ := NewTable([]Rule{rule})
				const requests = 10_000
				got := map[string]int{}
				for i := range requests {
					asked := id(i)
					n, _ := table.Name("chat", asked)
					if m, _ := again.Name("chat", asked); m.To != n.To {
						t.Fatalf("%q got %q and then %q", asked, n.To, m.To)
					}
					got[n.To]++
				}
				for i, w := range weights {
					share, want := float64(got[fmt.Sprint("m", i)])/requests, float64(w)/float64(sum)
					if share < want-.01 || share > want+.01 || w == 0 && share > 0 {
						t.Errorf("target %d of %v got %v of the requests, want %v", i, weights, share, want)
					}
				}
			})
		}
	}
}

// The split is a promise to other replicas, which may be of other versions.
func TestSplitStays(t *testing.T) {
	table, _ := NewTable([]Rule{model("ns/a", "chat", "ns/p", oldest, to("a", 1, "b", 1, "c", 1))})
	got := ""
	for i := range 24 {
		n, _ := table.Name("chat", fmt.Sprint(i))
		got += n.To
	}
	if want := "cbcbcaccaaacbbaabcacbbca"; got != want {
		t.Errorf("the IDs 0 to 23 go to %s, want %s", got, want)
	}
}

// The order in which rules come makes no difference.
func TestOrderOfRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rules []Rule
		for i := range rapid.IntRange(1, 12).Draw(t, "rules") {
			draw := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
			r := Rule{
				Source: "X ns/" + draw("source", "a", "b", "c"), Order: i, Older: rapid.Bool().Draw(t, "older"),
				Created: oldest.Add(time.Duration(rapid.IntRange(0, 2).Draw(t, "age")) * time.Hour),
				Model:   draw("model", "", "chat", "code"), Pool: draw("pool", "", "ns/p", "ns/q"),
				Criticality: draw("criticality", "", Sheddable), Unusable: draw("unusable", "", "", "", "broken"),
			}
			for range rapid.IntRange(0, 3).Draw(t, "targets") {
				r.Targets = append(r.Targets, Target{draw("target", "llama", "qwen"), rapid.IntRange(0, 3).Draw(t, "weight")})
			}
			rules = append(rules, r)
		}
		shuffled := rapid.Permutation(rules).Draw(t, "shuffled")
		a, lostA := NewTable(rules)
		b, lostB := NewTable(shuffled)
		if !reflect.DeepEqual(lostA, lostB) {
			t.Fatalf("conflicts %v, in another order %v", lostA, lostB)
		}
		for _, asked := range []string{"chat", "code", "else"} {
			id := rapid.String().Draw(t, "id")
			x, okX := a.Name(asked, id)
			y, okY := b.Name(asked, id)
			if okX != okY || !reflect.DeepEqual(x, y) {
				t.Fatalf("%s is %+v, in another order %+v", asked, x, y)
			}
			if okX && x.Targets > 0 && x.Sum > 0 && x.Weight == 0 {
				t.Fatalf("%s went to a target without weight: %+v", asked, x)
			}
		}
		// What does not lose counts: each usable rule is one or the other.
		slices.SortFunc(lostA, func(a, b Conflict) int { return cmp.Compare(a.Loser, b.Loser) })
		if len(lostA) > len(rules) || slices.ContainsFunc(lostA, func(c Conflict) bool { return c.Winner == c.Loser }) {
			t.Fatalf("conflicts %v of %d rules", lostA, len(rules))
		}
	})
}
