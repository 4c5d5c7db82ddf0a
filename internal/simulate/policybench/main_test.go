package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/internal/simulate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mooncake = "../../../testdata/traces/mooncake-2000.jsonl"

// What the script does, on a small part: a page gets a row for every policy, with the
// baseline at its capacity or below where it is to be.
func TestTablesOfASmallPart(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("words\n<!-- policies: begin -->\n<!-- policies: end -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	if err := run(t.Context(), []string{"-limit", "60", "-pods", "16", "-update", page, mooncake}, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	got, err := os.ReadFile(page)
	if want := "words\n<!-- policies: begin -->\n" + out.String() + "<!-- policies: end -->\n"; err != nil || string(got) != want {
		t.Errorf("the page is %q, %v, want %q", got, err, want)
	}
	for _, name := range append(simulate.Kinds(), variants...) {
		if n := strings.Count(out.String(), "| `"+name+"` | "); n != 1 {
			t.Errorf("%d rows of %s in\n%s", n, name, &out)
		}
	}
	row := regexp.MustCompile("(?m)^\\| `least-connections` \\| ([0-9.]+) · [0-9.]+ · ([0-9.]+) \\| – \\| .*").FindStringSubmatch(out.String())
	if row == nil {
		t.Fatalf("no row of the baseline in\n%s", &out)
	}
	if below, above := number(t, row[1]), number(t, row[2]); below < 100*enough || above > below {
		t.Errorf("the baseline has %v %% good at 60 %% of its capacity and %v %% at 110 %%", below, above)
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestHighest(t *testing.T) {
	for _, limit := range []float64{0.003, 0.79, 0.8, 0.81, 1, 7.77, 300} {
		tried := 0
		got, err := highest(0.8, func(rate float64) (bool, error) {
			tried++
			return rate <= limit, nil
		})
		if err != nil || got > limit || got*tolerance < limit {
			t.Errorf("limit %v: %v, %v", limit, got, err)
		}
		if most := 2 + 4 + int(math.Ceil(math.Abs(math.Log2(limit/0.8)))); tried > most {
			t.Errorf("limit %v: %d rates were tried, want %d at most", limit, tried, most)
		}
	}
	for _, always := range []bool{true, false} {
		_, err := highest(1, func(float64) (bool, error) { return always, nil })
		if want := "no capacity between 0.001 and 1000 requests a second"; err == nil || err.Error() != want {
			t.Errorf("always %v: %v, want %s", always, err, want)
		}
	}
	broken := errors.New("broken")
	if _, err := highest(1, func(float64) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}

func TestRefuses(t *testing.T) {
	together := filepath.Join(t.TempDir(), "together.csv")
	if err := os.WriteFile(together, []byte("time,input,output\n0,100,5\n0,100,5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no trace", nil, "one trace is needed, got 0"},
		{"two traces", []string{"a", "b"}, "one trace is needed, got 2"},
		{"a negative limit", []string{"-limit", "-1", mooncake}, "-limit: must not be negative, got -1"},
		{"no such file", []string{"gone.jsonl"}, "read the trace: open gone.jsonl"},
		{"no such GPU", []string{"-limit", "40", "-pods", "h100=2", mooncake}, `pods "h100=2": no GPU "h100"`},
		{"requests that come at once", []string{together}, "all requests come at once: there is no rate to look for"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, progress bytes.Buffer
			err := run(context.Background(), tt.args, &out, &progress)
			if err == nil || !strings.Contains(err.Error(), tt.want) || out.Len() > 0 {
				t.Errorf("%v, want %s; printed %q", err, tt.want, &out)
			}
		})
	}
}
