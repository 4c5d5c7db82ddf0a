package explain_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eppctl/eppctl/explain"
)

// Whatever bit of a record changes, a replay finds it, unless it is of what came
// after the decision. The test walks the type, so a field that is added later is
// either sealed or recomputed, or listed here.
func TestEveryFieldIsSealedOrRecomputed(t *testing.T) {
	later := []string{"Timings", "Attempts", "Outcome"}
	for _, name := range []string{"custom", "policy", "relaxed", "refused-503", "missing", "adapter", "no-prefix", "tiers"} {
		t.Run(name, func(t *testing.T) {
			rec := complete(t, recordOf(name, scenes()[name]))
			if v, _, _ := explain.Replay(rec); !v.Identical || !v.Sealed {
				t.Fatalf("unchanged: %+v", v)
			}
			leaves := 0
			for _, field := range reflect.VisibleFields(reflect.TypeFor[explain.Record]()) {
				at := reflect.ValueOf(rec).Elem().FieldByIndex(field.Index)
				isLater := strings.Contains(strings.Join(later, " "), field.Name)
				eachBit(at, field.Name, func(place string) {
					leaves++
					v, _, _ := explain.Replay(rec)
					if v.Identical != isLater {
						t.Errorf("%s changed: identical %v, difference %q", place, v.Identical, v.Difference)
					}
				})
			}
			if leaves < 40 {
				t.Errorf("only %d values were changed", leaves)
			}
			if v, _, _ := explain.Replay(rec); !v.Identical {
				t.Fatalf("changed back: %+v", v)
			}
		})
	}
}

// complete fills what scenes leave out, and takes the record through JSON.
func complete(t *testing.T, rec *explain.Record) *explain.Record {
	t.Helper()
	rec.Request.Chain = []string{"a3ae7af292837a18", "b9b8da07c0bb623d"}
	rec.Attempts = []explain.Attempt{{Pod: "sim-0", Endpoint: "10.0.0.0:8000", Error: "refused"}}
	rec.Gateway = &explain.Gateway{
		Kind: "envoy", RequestBody: "FULL_DUPLEX_STREAMED", Fallbacks: []string{"10.0.0.0:8000"},
		Subset: &explain.Subset{Count: 2, Unknown: 1, Addresses: []string{"10.0.0.0:8000", "10.0.0.9:8000"}},
	}
	rec.Seal()
	line, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	back := new(explain.Record)
	if err := json.Unmarshal(line, back); err != nil {
		t.Fatal(err)
	}
	return back
}

// eachBit changes one bit of each value below v, calls changed, and changes it back.
func eachBit(v reflect.Value, place string, changed func(place string)) {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	try := func(with any) {
		v.Set(reflect.ValueOf(with).Convert(v.Type()))
		changed(place)
		v.Set(old)
	}
	if at, ok := reflect.TypeAssert[time.Time](v); ok {
		try(at.Add(time.Nanosecond))
		try(at.Add(1 << 30 * time.Second))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(v.Type()) {
			eachBit(v.FieldByIndex(f.Index), place+"."+f.Name, changed)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachBit(v.Index(i), fmt.Sprintf("%s[%d]", place, i), changed)
		}
		if v.Len() > 0 {
			try(v.Slice(0, v.Len()-1).Interface())
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := v.MapIndex(key)
			v.SetMapIndex(key, reflect.Value{})
			changed(place + " without " + key.String())
			v.SetMapIndex(key, reflect.ValueOf("00000001"))
			changed(place + "." + key.String())
			v.SetMapIndex(key, value)
		}
	case reflect.Pointer:
		if v.IsNil() {
			try(reflect.New(v.Type().Elem()).Interface())
			return
		}
		eachBit(v.Elem(), place, changed)
		v.SetZero()
		changed(place + " left out")
		v.Set(old)
	default:
		for _, with := range flipped(v) {
			try(with)
		}
	}
}

// flipped are values that differ from v in one bit.
func flipped(v reflect.Value) []any {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); s != "" {
			return []any{s[:len(s)-1] + string(s[len(s)-1]^1)}
		}
		return []any{"x"}
	case reflect.Bool:
		return []any{!v.Bool()}
	case reflect.Int:
		return []any{v.Int() ^ 1}
	case reflect.Uint64:
		return []any{v.Uint() ^ 1}
	case reflect.Float64:
		return []any{math.Float64frombits(math.Float64bits(v.Float()) ^ 1), -v.Float()}
	}
	panic("no change for " + v.Type().String())
}

// A record without checksums is told apart from one whose inputs were verified.
func TestUnsealedRecord(t *testing.T) {
	rec := clearWin().record()
	rec.Check = nil
	for i := range rec.Candidates {
		rec.Candidates[i].Check = ""
	}
	report := explain.Explain(rec, explain.Options{})
	if want := (explain.Verification{Identical: true}); report.Replay != want {
		t.Errorf("replay = %+v, want %+v", report.Replay, want)
	}
	if text := textOf(t, report, explain.TextOptions{}); !strings.Contains(text, "replay: identical; inputs are not sealed") {
		t.Errorf("the text does not say that the inputs are not sealed:\n%s", text)
	}
	rec.Candidates[0].Load.State = "fuzzy"
	if v, _, _ := explain.Replay(rec); v.Identical || v.Sealed {
		t.Errorf("not replayable and not sealed: %+v", v)
	}
}

// Half of the seal is a damaged seal, not a record without one.
func TestPartOfTheSealIsMissing(t *testing.T) {
	for want, change := range map[string]func(*explain.Record){
		`input "id" is not`: func(r *explain.Record) { r.Check = nil },
		`input "time"`:      func(r *explain.Record) { delete(r.Check, "time") },
		`sim-2: the check`:  func(r *explain.Record) { r.Candidates[1].Check = "" },
	} {
		rec := clearWin().record()
		change(rec)
		if v, _, _ := explain.Replay(rec); v.Identical || !v.Sealed || !strings.HasPrefix(v.Difference, want) {
			t.Errorf("replay = %+v, want a difference that starts with %q", v, want)
		}
	}
}

// The pick of another policy than the scores can't be computed again, but it must
// be a candidate that could win, as it stands in the record.
func TestPickOfAnotherPolicyIsChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*explain.Record)
		want   string
	}{
		"beyond the candidates": {func(r *explain.Record) { r.Result.Index = 77 }, "pick: recorded candidate 77"},
		"refused":               {func(r *explain.Record) { r.Result.Index = -1 }, "pick: recorded candidate -1"},
		"a pod of another name": {func(r *explain.Record) { r.Result.Pod = "nobody" }, `pick: recorded "nobody", replayed "sim-1"`},
		"another endpoint":      {func(r *explain.Record) { r.Result.Endpoint = "10.0.0.9:1" }, "pick: recorded"},
		"another score":         {func(r *explain.Record) { r.Result.Score = .123 }, "score of the pick: recorded 0.123"},
		"the policy":            {func(r *explain.Record) { r.Policy = "scores" }, `input "policy"`},
		"all of it": {func(r *explain.Record) {
			r.Result.Index, r.Result.Pod, r.Result.Score = 77, "nobody", .123
		}, "pick: recorded candidate 77"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := policy().record()
			tc.change(rec)
			if v, _, _ := explain.Replay(rec); v.Identical || !strings.HasPrefix(v.Difference, tc.want) {
				t.Errorf("replay = %+v, want a difference that starts with %q", v, tc.want)
			}
		})
	}
	t.Run("an excluded pod", func(t *testing.T) {
		s := policy()
		s.pods[2].Health.Value = .1
		if v, _, _ := explain.Replay(s.record()); v.Identical || !strings.HasPrefix(v.Difference, "pick: recorded candidate 2") {
			t.Errorf("replay = %+v, want the pick refused", v)
		}
	})
	t.Run("a decision of the scores that says it was random", func(t *testing.T) {
		rec := clearWin().record()
		rec.Policy = "random"
		if v, _, _ := explain.Replay(rec); v.Identical || !strings.HasPrefix(v.Difference, `input "policy"`) {
			t.Errorf("replay = %+v, want the policy named", v)
		}
	})
	t.Run("nobody could be picked", func(t *testing.T) {
		s := scenes()["refused-503"]
		edit := s.edit
		s.edit = func(r *explain.Record) { edit(r); r.Policy, r.Result.Index = "random", 1 }
		if v, _, _ := explain.Replay(s.record()); v.Identical || !strings.HasPrefix(v.Difference, "pick: recorded") {
			t.Errorf("replay = %+v, want the pick refused", v)
		}
	})
}
