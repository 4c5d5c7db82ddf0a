package pool

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/engine"
)

func TestServing(t *testing.T) {
	p, _ := newPool(t)
	var all []Member
	for i, change := range []func(*Member){
		func(*Member) {},
		func(m *Member) { m.NotReady = true },
		func(m *Member) { m.Terminating = true },
		func(m *Member) { m.Engine = "sglang" },
		func(*Member) {}, // serves another model
		func(*Member) {}, // has not said what it serves
		func(*Member) {}, // sick
		func(m *Member) { m.URL = "" },
	} {
		m := Member{Name: fmt.Sprint("pod-", i), Address: fmt.Sprintf("10.0.0.%d:8000", i), URL: fmt.Sprintf("http://10.0.0.%d:8000", i)}
		change(&m)
		all = append(all, m)
	}
	if err := p.Set(all); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 1, 2, 3, 6, 7} {
		p.Listed(p.target(fmt.Sprint("pod-", i)), []engine.Model{{ID: "m", Root: "org/m"}, {ID: "fr", Root: "/fr", Parent: "m"}}, nil)
	}
	p.Listed(p.target("pod-4"), []engine.Model{{ID: "other", Root: "org/other"}}, nil)
	p.Probed(p.target("pod-6"), engine.Probe{At: time.Now(), Refused: true, Reason: "connection refused"})
	page := page()
	page.Waiting.V = 7
	p.scrape("pod-0", page)

	byURL := map[string]Serving{}
	for _, s := range p.Serving("m") {
		byURL[s.URL] = s
	}
	if len(byURL) != 3 {
		t.Errorf("serving are %v", byURL)
	}
	for url, want := range map[string]Serving{
		"http://10.0.0.0:8000": {Engine: "vllm", Root: "org/m", Load: 7},
		"http://10.0.0.3:8000": {Engine: "sglang", Root: "org/m"},
		"http://10.0.0.5:8000": {},
	} {
		got := byURL[url]
		if got.ID == "" || got.Engine != want.Engine || got.Root != want.Root || got.Load != want.Load {
			t.Errorf("%s: %+v, want %+v", url, got, want)
		}
	}
}

// Of a large pool some are listed, and others the next time.
func TestServingIsBounded(t *testing.T) {
	p, _ := newPool(t)
	var all []Member
	for i := range 3 * MostServing {
		all = append(all, Member{Name: fmt.Sprintf("pod-%03d", i), Address: fmt.Sprintf("10.0.1.%d:8000", i), URL: "http://x"})
	}
	if err := p.Set(all); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for range 6 {
		list := p.Serving("m")
		if len(list) != MostServing {
			t.Fatalf("%d are listed", len(list))
		}
		for _, s := range list {
			if !slices.Contains(seen, s.ID) {
				seen = append(seen, s.ID)
			}
		}
	}
	if len(seen) != len(all) {
		t.Errorf("%d of %d were listed", len(seen), len(all))
	}
}
