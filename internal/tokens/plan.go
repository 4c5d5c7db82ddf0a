package tokens

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/eppctl/eppctl/internal/request"
)

const (
	// firstCut is how far into a text, in bytes as written, the first cut is: less
	// is asked for again.
	firstCut = 4096
	// mostWrong lessons in a row show that a model's texts can't be joined.
	mostWrong = 3
)

// plan is what is to be asked for one prompt, in memory of its own: the request's
// body is gone when its client is.
type plan struct {
	*asking
	key      key
	messages key // of a chat
	head     []uint32
	known    []uint32 // ids of a beginning, for when nobody answers
	ask      question
	cuts     []key // of the text, to be marked as seen
	lesson   *lesson
}

// question is one call, in the forms that servers understand.
type question struct {
	tokenize, render []byte
	chat             bool
	empty            bool // an empty text, which may have no ids
}

// size is about how long the words are, in bytes.
func (q *question) size() int { return max(len(q.tokenize), len(q.render)) }

// lesson is what would show that texts may be joined at a cut.
type lesson struct {
	cut  key
	seen key // the earlier prompt with the same beginning
	rest question
}

// planText looks for a beginning of the text that is known already, or that
// another prompt had, so that it can be learned.
func (t *Tokeniser) planText(a *asking, text []byte, whole key, cuts []int, keys []key) *plan {
	p := &plan{asking: a, key: whole, cuts: keys}
	now := wallTime()
	for i, c := range slices.Backward(cuts) {
		found, ok := t.cache.get(keys[i], now)
		switch {
		case !ok, found.prompt == whole && found.ids == nil:
			continue
		case found.ids != nil && t.joinable(a.model):
			p.head, p.known = found.ids, found.ids
			t.write(p, restOf(text, c))
			return p
		case p.lesson == nil && found.ids == nil && t.joinable(a.model):
			p.lesson = &lesson{cut: keys[i], seen: found.prompt, rest: t.question(a, restOf(text, c), true)}
		}
	}
	t.write(p, text)
	return p
}

// restOf is the string from a cut on.
func restOf(text []byte, cut int) []byte {
	return append([]byte{'"'}, text[cut:]...)
}

// joinable: lessons have not shown that the model's texts can't be joined.
func (t *Tokeniser) joinable(model string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.joins[model] > -mostWrong
}

// origin is what ids from a server's /tokenize are.
func (a *asking) origin(s *server) string {
	if a.wording.Kind == request.ChatCompletions && harmony(a.base, a.model, s.root) {
		return request.FromText
	}
	return FromEngine
}

// write fills in the question of a plan.
func (t *Tokeniser) write(p *plan, text []byte) {
	p.ask = t.question(p.asking, text, p.head != nil)
}

func (t *Tokeniser) question(a *asking, text []byte, rest bool) question {
	q := question{chat: text == nil, empty: len(text) == len(`""`)}
	if t.asker.asksEngines() {
		q.tokenize = a.body(text, rest, false)
	}
	if t.asker.render != nil {
		q.render = a.body(text, rest, true)
	}
	return q
}

// body writes what is sent: the client's own words, and nothing of the body that
// takes no part in the rendering.
func (a *asking) body(text []byte, rest, render bool) []byte {
	name, err := json.Marshal(a.model)
	if err != nil { // strings always marshal
		name = []byte(`""`)
	}
	b := append([]byte(`{"model":`), name...)
	w := a.wording
	if text != nil {
		b = append(append(b, `,"prompt":`...), text...)
		special := w.Members[request.AddSpecialTokens]
		if rest {
			special = []byte("false") // they stand before the beginning
		}
		return append(member(b, request.AddSpecialTokens, special), '}')
	}
	b = append(b, `,"messages":[`...)
	b = append(append(b, bytes.Join(w.Messages, []byte{','})...), ']')
	for i, v := range w.Members {
		m := request.WordingMember(i)
		switch {
		case render, m < request.ChatTemplateKwargs:
			b = member(b, m, v)
		case m == request.ChatTemplateKwargs:
			b = member(b, m, kwargs(w))
		}
	}
	return append(b, '}')
}

func member(b []byte, m request.WordingMember, value []byte) []byte {
	if value == nil {
		return b
	}
	b = append(append(append(b, `,"`...), m.String()...), `":`...)
	return append(b, value...)
}

// kwargs are the arguments of the chat template: the client's, and behind them,
// where they take precedence, what the inference route would add. nil for none.
func kwargs(w *request.Wording) []byte {
	given := w.Members[request.ChatTemplateKwargs]
	effort, documents := w.Members[request.ReasoningEffort], w.Members[request.Documents]
	if effort == nil && documents == nil || given != nil && given[0] != '{' {
		return given
	}
	var inner []byte
	if given != nil {
		inner = bytes.TrimSpace(given[1 : len(given)-1])
	}
	b := append([]byte{'{'}, inner...)
	add := func(name string, value []byte) {
		if value == nil {
			return
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), name...), `":`...)
		b = append(b, value...)
	}
	if effort != nil && !bytes.Contains(given, []byte(`"enable_thinking"`)) {
		thinking := "true"
		if string(effort) == `"none"` {
			thinking = "false"
		}
		add("enable_thinking", []byte(thinking))
	}
	add(request.ReasoningEffort.String(), effort)
	add(request.Documents.String(), documents)
	return append(b, '}')
}

// keep keeps an answer, and what it says of other prompts.
func (t *Tokeniser) keep(p *plan, got answer) {
	now := wallTime()
	t.cache.put(item{key: p.key, ids: got.ids, from: got.from}, now)
	if p.wording.Kind == request.ChatCompletions {
		t.cache.put(item{key: p.messages, prompt: p.key}, now)
	}
	for _, k := range p.cuts {
		if _, known := t.cache.get(k, now); !known {
			t.cache.put(item{key: k, prompt: p.key}, now)
		}
	}
}

// learn looks whether the rest of a text by itself has the ids that it has in the
// whole, and the beginning those that it has in another prompt.
func (t *Tokeniser) learn(p *plan, whole, rest []uint32) {
	now := wallTime()
	other, ok := t.cache.get(p.lesson.seen, now)
	if !ok { // nothing to compare with any more; the next prompt has this one
		t.cache.put(item{key: p.lesson.cut, prompt: p.key}, now)
		return
	}
	n := len(whole) - len(rest)
	right := n > 0 && slices.Equal(whole[n:], rest) && len(other.ids) >= n && slices.Equal(whole[:n], other.ids[:n])
	t.mu.Lock()
	if len(t.joins) >= mostDoubts {
		clear(t.joins)
	}
	if right {
		t.joins[p.model] = max(t.joins[p.model], 0) + 1
	} else {
		t.joins[p.model] = min(t.joins[p.model], 0) - 1
	}
	t.mu.Unlock()
	if right {
		t.cache.put(item{key: p.lesson.cut, ids: slices.Clone(whole[:n]), from: Joined}, now)
	}
}
