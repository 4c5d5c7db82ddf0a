package simulate

import (
	"slices"
	"time"
)

// The generators. Conversations begin as a Poisson process; their later turns come
// when they come, whatever became of the ones before: all policies see the same
// arrivals.
var (
	chat = Generator{Name: "chat", About: "conversations that share a few system prompts", Settings: []Setting{
		{"systems", 4, "system prompts"},
		{"system", 600, "tokens of a system prompt; 0: there is none"},
		{"turns", 6, "of a conversation"},
		{"question", 80, "tokens of a user's message"},
		{"answer", 160, "tokens of an answer"},
		{"think", 20, "seconds between an answer and the next question"},
	}, fill: func(g *generation) { g.conversations("systems", "") }}

	rag = Generator{Name: "rag", About: "single questions about long documents, some of which are popular", Settings: []Setting{
		{"documents", 200, "that there are"},
		{"document", 6000, "tokens of a document"},
		{"zipf", 1, "how uneven their use is; 0: all alike"},
		{"systems", 1, "system prompts, before the document"},
		{"system", 300, "tokens of a system prompt; 0: there is none"},
		{"question", 60, "tokens of the question, after the document"},
		{"answer", 200, "tokens of an answer"},
	}, fill: (*generation).documents}

	agents = Generator{Name: "agents", About: "agents that call tools in a loop, each call with all that was before", Settings: []Setting{
		{"systems", 3, "kinds of agents, each with its instructions and tools"},
		{"system", 3000, "tokens of these"},
		{"turns", 12, "calls of a run"},
		{"question", 400, "tokens of a tool's result"},
		{"answer", 80, "tokens of an answer"},
		{"think", 1, "seconds that a tool takes"},
	}, fill: func(g *generation) { g.conversations("systems", "") }}

	multiLoRA = Generator{Name: "multi-lora", About: "conversations with LoRA adapters", Settings: []Setting{
		{"adapters", 20, "that there are"},
		{"rank", 16, "of an adapter"},
		{"zipf", 1, "how uneven their use is; 0: all alike"},
		{"system", 200, "tokens of an adapter's system prompt; 0: there is none"},
		{"turns", 2, "of a conversation"},
		{"question", 80, "tokens of a user's message"},
		{"answer", 120, "tokens of an answer"},
		{"think", 20, "seconds between an answer and the next question"},
	}, fill: func(g *generation) { g.conversations("adapters", "adapter") }}

	herd = Generator{Name: "herd", About: "herds: many requests with one long prefix in one instant", Settings: []Setting{
		{"size", 50, "requests of a herd"},
		{"prefix", 4000, "tokens that a herd shares"},
		{"question", 50, "tokens of each request's own"},
		{"answer", 50, "tokens of an answer"},
		{"again", 1, "times that each prefix comes in all"},
	}, fill: (*generation).herds}
)

// perToken is what an answer's token takes, for the time at which the next turn comes.
const perToken = 10 * time.Millisecond

// conversations lets them begin until there are requests enough.
func (g *generation) conversations(groups, adapter string) {
	prompts := g.several(groups)
	lengths := make([]int, len(prompts))
	names := make([]string, len(prompts))
	for i := range prompts {
		if lengths[i] = int(g.set["system"]); lengths[i] > 0 {
			lengths[i] = g.tokens("system")
		}
		if adapter != "" {
			names[i] = adapter + "-" + string(rune('a'+i/26)) + string(rune('a'+i%26))
			g.c.trace.Adapters = append(g.c.trace.Adapters, Adapter{Name: names[i], Rank: int(g.set["rank"])})
		}
	}
	turns := max(1, int(g.set["turns"]))
	for n := 0; !g.enough(); n++ {
		g.now += g.wait(float64(turns) / g.set["rate"])
		i := g.zipf(len(prompts), g.set["zipf"])
		q := Request{At: g.now, Adapter: names[i]}
		if lengths[i] > 0 {
			q.Prompt = then(q.Prompt, prompts[i], lengths[i])
		}
		g.converse(q, g.id(), n, turns, prompts[i])
	}
}

// converse adds the turns of a conversation that begins with q.
func (g *generation) converse(q Request, session uint64, n, turns int, system uint64) {
	for turn := 1; turn <= turns; turn++ {
		q.Prompt = then(clip(q.Prompt), g.id(), g.tokens("question"))
		q.Output, q.Answer = g.tokens("answer"), g.id()
		q.Session, q.Turn = session, turn
		g.seen(&q, n, system)
		if q.Input()+q.Output > maxTokens || !g.add(q) {
			return
		}
		q.Prompt = then(clip(q.Prompt), q.Answer, q.Output)
		q.At += time.Duration(q.Output)*perToken + g.wait(g.set["think"])
	}
}

// clip makes a prompt one that can be continued in several ways.
func clip(p []Piece) []Piece { return slices.Clip(p) }

// seen sets what proxies see of conversation n.
func (g *generation) seen(q *Request, n int, system uint64) {
	q.Client = hashOf(g.seed ^ uint64(n/max(1, int(g.set["nat"]))))
	q.URI, q.Spelling = 0, 0
	if g.set["uris"] > 0 {
		q.URI = system
	}
	if g.rng.Float64() < g.set["vary"] {
		q.Spelling = g.id()
	}
}

// documents asks about one at a time.
func (g *generation) documents() {
	systems, docs := g.several("systems"), g.several("documents")
	lengths := make([]int, len(docs))
	for i := range docs {
		lengths[i] = g.tokens("document")
	}
	system := int(g.set["system"])
	for n := 0; !g.enough(); n++ {
		g.now += g.wait(1 / g.set["rate"])
		s, d := g.rng.IntN(len(systems)), g.zipf(len(docs), g.set["zipf"])
		q := Request{At: g.now, Session: g.id(), Turn: 1, Output: g.tokens("answer")}
		if system > 0 {
			q.Prompt = then(q.Prompt, systems[s], system)
		}
		q.Prompt = then(then(q.Prompt, docs[d], lengths[d]), g.id(), g.tokens("question"))
		g.seen(&q, n, systems[s])
		if !g.add(q) {
			return
		}
	}
}

// herds come at the rate of their requests.
func (g *generation) herds() {
	size, again := max(1, int(g.set["size"])), max(1, int(g.set["again"]))
	var prefix uint64
	for n := 0; !g.enough(); n++ {
		if n%again == 0 {
			prefix = g.id()
		}
		if n > 0 {
			g.now += g.wait(float64(size) / g.set["rate"])
		}
		for i := range size {
			q := Request{At: g.now, Session: g.id(), Turn: 1, Output: g.tokens("answer")}
			q.Prompt = then(then(q.Prompt, prefix, max(1, int(g.set["prefix"]))), g.id(), g.tokens("question"))
			g.seen(&q, n*size+i, prefix)
			if !g.add(q) {
				return
			}
		}
	}
}
