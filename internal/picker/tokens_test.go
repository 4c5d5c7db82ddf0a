package picker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/report"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/tokens"
)

// dictionary is a tokeniser that has one answer.
type dictionary struct {
	ids   []uint32
	from  string
	asked []string
	told  []string
}

func (d *dictionary) Tokens(_ context.Context, q *tokens.Query) tokens.Prompts {
	d.asked = append(d.asked, q.Base+" "+string(q.Body))
	return tokens.Prompts{IDs: [][]uint32{d.ids}, From: d.from}
}

func (d *dictionary) Told(base, from string, ours, engines int) {
	d.told = append(d.told, fmt.Sprint(base, " ", from, " ", ours, " ", engines))
}

func textCall(tb testing.TB, body string) *Call {
	tb.Helper()
	r, err := request.Parse("/v1/completions", []byte(body), request.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return &Call{ID: "r", Path: "/v1/completions", Arrival: time.Now(), Request: r, Body: []byte(body)}
}

// The ids that the tokeniser finds are those that are looked up, recorded and
// compared with the engine's count; what was read of the request stays as it was.
func TestPickByTheEnginesTokens(t *testing.T) {
	d := &dictionary{ids: prompt(64, 1), from: tokens.FromEngine}
	f := newFleet(t, 4, func(c *Config) { c.Tokeniser = d })
	f.scrape(0)
	for i := range 4 {
		f.report(t, podName(i), func(r *report.Report) {
			if i == 2 {
				holds(d.ids)(r)
			}
		})
	}
	c := textCall(t, `{"model":"m","prompt":"in words"}`)
	before := *c.Request
	k := f.mustPick(t, c)
	if k.Pod() != podName(2) || k.Predicted() != 48 {
		t.Errorf("picked %s, predicted %d; the prompt is at %s", k.Pod(), k.Predicted(), podName(2))
	}
	if diff := cmp.Diff(before, *c.Request); diff != "" {
		t.Errorf("the call's request has changed: %s", diff)
	}
	rec, ok := f.newest()
	if !ok || rec.Request.TokensFrom != tokens.FromEngine || rec.Request.PromptTokens != 64 || rec.Request.Blocks != 4 || rec.Timings.Tokens == nil {
		t.Errorf("recorded %+v, timings %+v", rec.Request, rec.Timings)
	}
	k.Done(End{Status: 200, PromptTokens: 65, CachedTokens: 48, OutputTokens: 1})
	if want := []string{`m {"model":"m","prompt":"in words"}`}; !cmp.Equal(d.asked, want) {
		t.Errorf("asked %q, want %q", d.asked, want)
	}
	if want := []string{"m engine 64 65"}; !cmp.Equal(d.told, want) {
		t.Errorf("told %q, want %q", d.told, want)
	}
}

func TestTheTokeniserIsNotAsked(t *testing.T) {
	d := &dictionary{ids: prompt(64, 1), from: tokens.FromEngine}
	f := newFleet(t, 1, func(c *Config) { c.Tokeniser = d })
	noBody := textCall(t, `{"model":"m","prompt":"in words"}`)
	noBody.Body = nil
	for name, c := range map[string]*Call{
		"ids":       textCall(t, `{"model":"m","prompt":[1,2,3]}`),
		"no body":   noBody,
		"no prefix": textCall(t, `{"model":"m","prompt_embeds":"x"}`),
	} {
		k := f.mustPick(t, c)
		if rec, ok := f.newest(); !ok || rec.Request.TokensFrom != c.Request.TokensFrom || rec.Timings.Tokens != nil || len(d.asked) > 0 {
			t.Errorf("%s: recorded %+v, timings %+v, asked %q", name, rec.Request, rec.Timings, d.asked)
		}
		k.Done(end())
	}
	several := textCall(t, `{"model":"m","prompt":"x","n":3}`)
	k := f.mustPick(t, several)
	k.Done(End{Status: 200, PromptTokens: 6, CachedTokens: -1, OutputTokens: -1})
	if len(d.asked) != 1 || len(d.told) != 0 {
		t.Errorf("of several answers: asked %q, told %q", d.asked, d.told)
	}
}

// quarters is an engine whose ids are four bytes each.
type quarters struct{}

func (quarters) RoundTrip(req *http.Request) (*http.Response, error) {
	var doc struct{ Prompt string }
	if err := json.NewDecoder(req.Body).Decode(&doc); err != nil {
		return nil, err
	}
	ids := request.AppendPieces(nil, doc.Prompt)
	text, err := json.Marshal(map[string]any{"count": len(ids), "tokens": ids})
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(text))), Request: req,
	}, err
}

// BenchmarkPickInWords is the whole hot path for a prompt of 16 KiB of words, which
// are 4096 tokens, and 100 pods: with an engine's ids from a warm cache, and with
// the approximate ones.
func BenchmarkPickInWords(b *testing.B) {
	c := textCall(b, fmt.Sprintf(`{"model":"m","max_tokens":64,"prompt":%q}`, strings.Repeat("some words, ", 4096*4/12+1)[:4096*4]))
	for _, exact := range []bool{true, false} {
		f := newFleet(b, 100, func(cfg *Config) {
			if !exact {
				return
			}
			t, err := tokens.New(tokens.Config{Transport: quarters{}, Timeout: time.Minute, Servers: func(string) []tokens.Server {
				return []tokens.Server{{ID: "a", URL: "http://a"}}
			}})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(t.Close)
			cfg.Tokeniser = t
		})
		f.scrape(0)
		for i := range 100 {
			f.report(b, podName(i), func(r *report.Report) { holds(c.Request.Tokens[:(i%64+1)*4*blockSize])(r) })
		}
		k := f.mustPick(b, c)
		k.Done(end())
		if rec, ok := f.newest(); !ok || exact != (rec.Request.TokensFrom == tokens.FromEngine) {
			b.Fatalf("recorded %+v", rec.Request)
		}
		name := "tokens=approximate"
		if exact {
			name = "tokens=engine"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f.mustPick(b, c).Done(end())
			}
		})
	}
}
