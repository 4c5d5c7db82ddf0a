package explain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/golden"
)

// recordOf records a scene; the damaged one gets its damage after the sealing.
func recordOf(name string, s scene) *explain.Record {
	rec := s.record()
	if name == "damaged" {
		rec.Timings.Scorers = 0
		rec.Candidates[1].Load.Value = new(.56)
	}
	return rec
}

func textOf(t *testing.T, r *explain.Report, opt explain.TextOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Text(&b, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(scenes())) {
		t.Run(name, func(t *testing.T) {
			report := explain.Explain(recordOf(name, scenes()[name]), explain.Options{})
			golden.Equal(t, "testdata/"+name+".80.txt", textOf(t, report, explain.TextOptions{Width: 80}))
			golden.Equal(t, "testdata/"+name+".120.txt", textOf(t, report, explain.TextOptions{Width: 120}))
			golden.Equal(t, "testdata/"+name+".wide.txt", textOf(t, report, explain.TextOptions{Wide: true}))
			document, err := json.MarshalIndent(report, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, "testdata/"+name+".json", string(document)+"\n")
			goldenDocuments(t, name, report)
		})
	}
}

func TestNoLineExceedsTheWidth(t *testing.T) {
	for name, s := range scenes() {
		report := explain.Explain(recordOf(name, s), explain.Options{Flips: 9})
		for _, width := range []int{40, 60, 80, 100, 120, 160} {
			for _, wide := range []bool{false, true} {
				text := textOf(t, report, explain.TextOptions{Width: width, Wide: wide, ASCII: width == 60})
				for line := range strings.Lines(text) {
					line = strings.TrimSuffix(line, "\n")
					if n := columns(line); n > width {
						t.Errorf("%s at %d: a line of %d columns: %q", name, width, n, line)
					}
				}
			}
		}
	}
}

// columns is a rough width of its own: wide from the CJK blocks on.
func columns(line string) int {
	n := 0
	for _, r := range line {
		switch {
		case unicode.Is(unicode.Mn, r):
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			n += 2
		default:
			n++
		}
	}
	return n
}

func TestASCII(t *testing.T) {
	report := explain.Explain(scenes()["clear-win"].record(), explain.Options{})
	for _, width := range []int{80, 120} {
		text := textOf(t, report, explain.TextOptions{Width: width, ASCII: true})
		if i := strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }); i >= 0 {
			t.Errorf("at %d: beyond ASCII from %q", width, text[i:min(i+20, len(text))])
		}
	}
}

func TestTextLeavesOutAStageThatWasNotTimed(t *testing.T) {
	rec := clearWin().record()
	rec.Timings.Tokens = nil
	text := textOf(t, explain.Explain(rec, explain.Options{}), explain.TextOptions{})
	if want := "(parse 0.021, lookup 0.002, scorers 0.000, decide 0.001)"; !strings.Contains(text, want) {
		t.Errorf("the text has no %q:\n%s", want, text)
	}
}

func TestPaintOnlyAddsTones(t *testing.T) {
	for name, s := range scenes() {
		report := explain.Explain(recordOf(name, s), explain.Options{})
		painted := textOf(t, report, explain.TextOptions{Width: 80, Paint: func(_ explain.Tone, text string) string {
			return "\x1b[1m" + text + "\x1b[0m"
		}})
		stripped := strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "").Replace(painted)
		if diff := cmp.Diff(textOf(t, report, explain.TextOptions{Width: 80}), stripped); diff != "" {
			t.Errorf("%s: without its tones the text differs:\n%s", name, diff)
		}
	}
}

// The text must lose nothing that the report knows.
func TestTextHoldsEveryFact(t *testing.T) {
	for name, s := range scenes() {
		if name == "hostile" {
			continue
		}
		r := explain.Explain(recordOf(name, s), explain.Options{})
		flat := strings.Join(strings.Fields(textOf(t, r, explain.TextOptions{Width: 100, Wide: true})), " ")
		for _, fact := range facts(r) {
			if fact = strings.Join(strings.Fields(fact), " "); !strings.Contains(flat, fact) {
				t.Errorf("%s: the text has no %q", name, fact)
			}
		}
	}
}

func facts(r *explain.Report) []string {
	out := []string{r.RequestID, r.DecisionID, r.Model, r.Verdict, r.Replay.Difference, r.Weights.Saturation}
	for _, n := range r.Notes {
		out = append(out, n.Text)
	}
	factors := func(list []explain.Factor) {
		for _, f := range list {
			out = append(out, f.Name, f.Detail)
			if f.State != "known" && f.State != "notApplicable" {
				out = append(out, f.State)
			}
		}
	}
	for _, c := range r.Candidates {
		out = append(out, c.Pod, c.Endpoint, c.Tie)
		factors(c.Factors)
	}
	for _, x := range r.Excluded {
		out = append(out, x.Pod, x.Endpoint, x.Reason, x.Detail)
		factors(x.Factors)
	}
	for _, pod := range r.Flips {
		for _, c := range pod.Changes {
			out = append(out, c.Factor, c.Why)
		}
	}
	for _, a := range r.Attempts {
		out = append(out, a.Pod, a.Endpoint, a.Error)
	}
	if g := r.Gateway; g != nil {
		out = append(append(out, g.Kind, g.RequestBody, g.ResponseBody), g.Fallbacks...)
		if g.Subset != nil {
			out = append(out, g.Subset.Addresses...)
		}
	}
	if r.Timings.Body != nil {
		out = append(out, fmt.Sprintf("waiting for the rest of the body: %.3f ms", *r.Timings.Body*1e3))
	}
	if r.Outcome.Attempts != nil {
		out = append(out, fmt.Sprintf("attempts: %d by the gateway", *r.Outcome.Attempts))
	}
	return append(out, r.Outcome.Detail, r.Outcome.Flags, r.Outcome.CodeDetails)
}

func TestNothingFromTheWireReachesTheTerminal(t *testing.T) {
	report := explain.Explain(scenes()["hostile"].record(), explain.Options{Flips: 3})
	for _, width := range []int{0, 80, 120} {
		text := textOf(t, report, explain.TextOptions{Width: width, Wide: true})
		for _, r := range text {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("at %d: the text holds %q", width, r)
			}
		}
		if !utf8.ValidString(text) {
			t.Errorf("at %d: the text is not UTF-8", width)
		}
		if !strings.Contains(text, `a\nb\x1b[31m`) {
			t.Errorf("at %d: the request ID is not shown escaped", width)
		}
	}
}

func TestSanitizeHook(t *testing.T) {
	report := explain.Explain(scenes()["hostile"].record(), explain.Options{})
	text := textOf(t, report, explain.TextOptions{Sanitize: func(string) string { return "*" }})
	if strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "owned") {
		t.Errorf("a string went around the sanitizer:\n%s", text)
	}
}

func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"plain":        "plain",
		"":             "",
		"日本":           "日本",
		"a\x1b[31mb":   `a\x1b[31mb`,
		"a\nb\tc":      `a\nb\tc`,
		"\u202egnp":    `\u202egnp`,
		"\u200b":       `\u200b`,
		"\xff\xc3":     `\xff\xc3`,
		"\u0085\u009b": `\u0085\u009b`,
		"\ufffd":       "\ufffd",
		"\u3164\ufe0f": `\u3164\ufe0f`,
	} {
		if got := explain.Sanitize(in); got != want {
			t.Errorf("Sanitize(%q) = %q, want %q", in, got, want)
		}
		if got := explain.Sanitize(want); got != want {
			t.Errorf("Sanitize(%q) = %q, want it unchanged", want, got)
		}
	}
}
