package cmd

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/tune"
	"github.com/eppctl/eppctl/score"
)

// weightsOnly is a picker's admin API that knows weights alone.
func weightsOnly(t *testing.T, w *explain.Weights) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			generation := w.Generation
			if r.Header.Get("If-Match") != `"`+string(rune('0'+generation))+`"` {
				t.Errorf("If-Match %s, generation %d is in force", r.Header.Get("If-Match"), generation)
			}
			if err := json.NewDecoder(r.Body).Decode(w); err != nil {
				t.Error(err)
			}
			w.Generation = generation + 1
		}
		out.Header().Set("Eppctl-Api", admin.APIVersion)
		out.Header().Set("Content-Type", "application/json")
		doc := admin.Weights{Document: admin.Document{APIVersion: explain.APIVersion, Kind: "Weights"}, Weights: *w}
		if err := json.NewEncoder(out).Encode(doc); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func suggested(w *score.Weights) *tune.Advice {
	m := &tune.Move{Key: "queue", From: .1, To: .2, TakenFrom: &tune.Donor{Key: "cache", From: .6, To: .5}}
	return &tune.Advice{
		Weights:    explain.RecordWeights(w),
		Suggestion: &tune.Suggestion{Move: m, Text: m.Text(), Weights: explain.RecordWeights(m.Apply(w))},
	}
}

// A suggestion that is put in force keeps the weights before in a file, from which
// they come back.
func TestTuneAppliesAndGoesBack(t *testing.T) {
	w := score.Default()
	now := explain.RecordWeights(&w)
	f := tuneFlags{save: filepath.Join(t.TempDir(), "before.json")}
	f.from.servers = []string{weightsOnly(t, &now)}
	s, _, errOut := cli.Test()
	if err := f.applyAdvice(context.Background(), s, suggested(&w)); err != nil {
		t.Fatal(err)
	}
	if now.Queue != .2 || now.Cache != .5 || now.Generation != 1 {
		t.Errorf("in force: %+v", now)
	}
	if want := "eppctl tune --restore " + f.save + " --yes --server "; !strings.Contains(errOut.String(), want) {
		t.Errorf("the way back is not told: %s", errOut)
	}
	back := tuneFlags{restore: f.save, from: f.from}
	if err := back.putBack(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	if now.Queue != .1 || now.Cache != .6 || now.Generation != 2 {
		t.Errorf("in force after the way back: %+v", now)
	}
}

// What would lose the way back, or is about other weights, changes nothing.
func TestTuneAppliesNothingThatItShouldNot(t *testing.T) {
	w := score.Default()
	rag, err := score.Preset("rag")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "before.json")
	interval := suggested(&w)
	interval.Suggestion.Move = &tune.Move{Key: tune.KeyReportInterval, From: 5000, To: 1000}
	for _, c := range []struct {
		name    string
		inForce score.Weights
		advice  *tune.Advice
		want    string
	}{
		{"the first time", w, suggested(&w), ""},
		{"the file is there", w, suggested(&w), "is there already: nothing was changed"},
		{"other weights", rag, suggested(&w), "other weights are in force"},
		{"an interval", w, interval, "can't be changed in a running picker"},
		{"keep", w, &tune.Advice{}, ""},
	} {
		now := explain.RecordWeights(&c.inForce)
		before := now
		f := tuneFlags{save: file}
		f.from.servers = []string{weightsOnly(t, &now)}
		s, _, _ := cli.Test()
		err := f.applyAdvice(context.Background(), s, c.advice)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if changed := now.Queue != before.Queue; changed != (c.name == "the first time") {
			t.Errorf("%s: weights %+v", c.name, now)
		}
	}
}

// A picker that refuses leaves no file, which would be in the way of the next time.
func TestTuneKeepsNothingWhenItIsRefused(t *testing.T) {
	w := score.Default()
	now := explain.RecordWeights(&w)
	doc := admin.Weights{Document: admin.Document{APIVersion: explain.APIVersion, Kind: "Weights"}, Weights: now}
	for status, kept := range map[int]bool{http.StatusForbidden: false, http.StatusConflict: false, http.StatusBadGateway: true} {
		s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			out.Header().Set("Eppctl-Api", admin.APIVersion)
			out.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodPut {
				out.WriteHeader(status)
				return
			}
			if err := json.NewEncoder(out).Encode(doc); err != nil {
				t.Error(err)
			}
		}))
		t.Cleanup(s.Close)
		f := tuneFlags{save: filepath.Join(t.TempDir(), "before.json")}
		f.from.servers = []string{s.URL}
		streams, _, _ := cli.Test()
		if err := f.applyAdvice(t.Context(), streams, suggested(&w)); err == nil {
			t.Errorf("%d is no error", status)
		}
		if _, err := os.Stat(f.save); (err == nil) != kept {
			t.Errorf("%d: the file is kept: %v, want %v", status, err == nil, kept)
		}
	}
}
