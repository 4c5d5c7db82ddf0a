package explain_test

import (
	"fmt"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/score"
)

func hostile() scene {
	return scene{
		req: score.InferenceRequest{Blocks: 195, Adapter: "fr\x1b]0;owned\a"}, weights: score.Default(),
		pods: []score.PodState{pod("\u202esim-0", 10, .5, 2), pod("日本語のポッド-1", 5, .5, 2), sick("x\x1b[2J6")},
		edit: func(rec *explain.Record) {
			rec.RequestID, rec.Request.Model = "a\nb\x1b[31m", "m\u200bodel\xff"
			rec.Outcome.Error = "boom\r\n\x1b[0m\x7f\U000e0041"
		},
	}
}

// markup is full of what would act in HTML or Markdown.
func markup() scene {
	return scene{
		req: score.InferenceRequest{Blocks: 195, Adapter: "a|b`c`"}, weights: score.Default(),
		pods: []score.PodState{
			pod("<img src=x onerror=alert(1)>", 10, .5, 2), pod("[x](javascript:alert(1))", 5, .5, 2),
			excluded(pod("</td></table><script>alert(1)</script>", 0, .5, 2), score.NotReady),
		},
		edit: func(rec *explain.Record) {
			rec.RequestID, rec.Request.Model = "\"'><script>alert(1)</script>", "# **@everyone** https://example.com/ www.example.com ~~$x$~~"
			rec.Outcome.Error = "</style></title>]]>&lt;--"
		},
	}
}

// crowd is a pool of 500: the pod with most of the prompt is full of work, and far
// behind; half of them can't win.
func crowd() scene {
	s := scene{req: plain, weights: score.Default()}
	for i := range 500 {
		p := pod(fmt.Sprintf("vllm-llama3-7f9c6d5b8-%05d", i), float64(i%7), .1+float64(i%50)/100, float64(i%5))
		switch {
		case i == 77:
			p = pod("the-owner", 9, 1, 19)
			p.Health.Value = .5
		case i%4 == 1:
			p.Excluded = score.NotReady
		case i%4 == 3:
			p.Excluded = score.NotInSubset
		}
		s.pods = append(s.pods, p)
	}
	return s
}
