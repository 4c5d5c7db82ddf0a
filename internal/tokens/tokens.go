package tokens

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/request"
)

// Where ids came from, beside those of package request.
const (
	FromEngine = "engine" // an engine's /tokenize, for this very wording
	FromRender = "render" // a …/render route
	Joined     = "joined" // an engine, the beginning and the rest at different times
)

// Source says whom to ask.
type Source string

// The sources. With SourceAuto a render route is asked when there is one, and
// engines when there is none or it fails.
const (
	SourceAuto        Source = "auto"
	SourceEngine      Source = "engine"
	SourceRender      Source = "render"
	SourceApproximate Source = "approximate"
)

// Server is an engine that can be asked.
type Server struct {
	// ID is another one when another process may be behind the URL.
	ID string
	// URL is its base, "http://10.0.0.7:8000".
	URL string
	// Engine is "vllm", "sglang" or "trtllm"; "" when not known.
	Engine string
	// Root is what the model was loaded from; "" when not known.
	Root string
	// Load orders servers: the idle ones are asked first.
	Load float64
}

// Config is what a tokeniser needs. Zero values mean the defaults; times are wall
// time.
type Config struct {
	Source Source
	// RenderURL is the base of a server with …/render routes; "" = none.
	RenderURL string
	// Servers are the ready engines that serve a base model. It is called for each
	// prompt that is not in the cache.
	Servers func(base string) []Server

	// Timeout is how long a request may wait for its ids (default 150 ms).
	Timeout time.Duration
	// CacheBytes bounds the memory of the cache (default 64 MiB).
	CacheBytes int64
	// MaxCalls bounds the calls that run at once; a prompt that would need one more
	// gets approximate ids (default 64).
	MaxCalls int
	// MaxBody is the longest request body, in bytes, that is asked for (default
	// 1 MiB: the ids of more take longer than the timeout).
	MaxBody int

	// Transport sends the calls (default: one that keeps connections and uses no
	// proxy).
	Transport http.RoundTripper
	Logger    *slog.Logger
}

func (c *Config) withDefaults() {
	if c.Source == "" {
		c.Source = SourceAuto
	}
	orDefault(&c.Timeout, 150*time.Millisecond)
	orDefault(&c.CacheBytes, 64<<20)
	orDefault(&c.MaxCalls, 64)
	orDefault(&c.MaxBody, 1<<20)
	if c.Servers == nil {
		c.Servers = func(string) []Server { return nil }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func orDefault[T ~int | ~int64](v *T, fallback T) {
	if *v == 0 {
		*v = fallback
	}
}

// CheckURL says what is wrong with the base URL of a render server.
func CheckURL(base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" {
		return errors.New("must have the form http://host:port")
	}
	return nil
}

func (c *Config) validate() error {
	switch c.Source {
	case SourceAuto, SourceEngine, SourceRender, SourceApproximate:
	default:
		return fmt.Errorf("tokens: unknown source %q", c.Source)
	}
	if c.RenderURL != "" {
		if err := CheckURL(c.RenderURL); err != nil {
			return fmt.Errorf("tokens: render URL: %w", err)
		}
	}
	if c.Source == SourceRender && c.RenderURL == "" {
		return errors.New("tokens: source render needs a render URL")
	}
	if c.Timeout < 0 || c.CacheBytes < 0 || c.MaxCalls < 0 || c.MaxBody < 0 {
		return errors.New("tokens: limits must not be negative")
	}
	return nil
}

// Tokeniser finds token ids. It is safe for concurrent use.
type Tokeniser struct {
	cfg    Config
	hasher *hasher
	cache  *cache
	asker  *asker
	counts counts

	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup // flights and lone calls

	mu      sync.Mutex
	flights map[key]*flight
	doubts  map[string]doubt // by base model
	// generation is the last one that was given out; forgotten is that of models
	// without a doubt.
	generation, forgotten uint64
	joins                 map[string]int // by model: lessons that were right, or below zero wrong, in a row
}

// New checks the configuration and makes a tokeniser. It has to be closed.
func New(cfg Config) (*Tokeniser, error) {
	cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &Tokeniser{
		cfg: cfg, hasher: newHasher(), cache: newCache(cfg.CacheBytes), asker: newAsker(&cfg),
		flights: map[key]*flight{}, doubts: map[string]doubt{}, joins: map[string]int{},
	}
	t.life, t.end = context.WithCancel(context.Background())
	return t, nil
}

// Close cancels what is under way and waits for its end.
func (t *Tokeniser) Close() {
	t.end()
	t.work.Wait()
	t.asker.close()
}

// Query is a request whose ids are wanted.
type Query struct {
	// Base is the model as resolved: who serves it can be asked.
	Base string
	// Model is how the engines call what is asked for.
	Model string
	// Body is the request's; it is not kept.
	Body []byte
	// Request is what was read of it.
	Request *request.Request
}

// Prompts are the ids of a request's prompts, in order. They must not be changed.
type Prompts struct {
	IDs  [][]uint32
	From string
}

// maxTexts is how many prompts of one request are asked for; a body of more gets
// approximate ids.
const maxTexts = 16

// Tokens finds the ids of a request. It takes no longer than the timeout, or than
// ctx allows, and always returns as many prompts as the request has.
func (t *Tokeniser) Tokens(ctx context.Context, q *Query) Prompts {
	r := q.Request
	if r.TokensFrom != request.FromText {
		return Prompts{IDs: r.PromptTokens, From: r.TokensFrom}
	}
	p := Prompts{IDs: r.PromptTokens, From: request.FromText}
	if len(q.Body) <= t.cfg.MaxBody && t.cfg.Source != SourceApproximate && !t.mute(q.Base) {
		if w := request.ReadWording(r.Kind, q.Body); w != nil && w.Mute == "" {
			p = t.each(ctx, q, w)
		}
	}
	t.counts.served(p.From)
	return p
}

// each finds the ids of every prompt of a wording.
func (t *Tokeniser) each(ctx context.Context, q *Query, w *request.Wording) Prompts {
	approximate := q.Request.PromptTokens
	a := t.asking(q, w)
	switch n := len(w.Texts); {
	case w.Kind == request.ChatCompletions && len(approximate) == 1:
		ids, from := t.chat(ctx, a, approximate[0])
		return Prompts{IDs: [][]uint32{ids}, From: from}
	case n == 1 && len(approximate) == 1:
		ids, from := t.text(ctx, a, w.Texts[0], approximate[0])
		return Prompts{IDs: [][]uint32{ids}, From: from}
	case n == 0 || n > maxTexts || n != len(approximate):
		return Prompts{IDs: approximate, From: request.FromText}
	}
	p := Prompts{IDs: make([][]uint32, len(w.Texts))}
	froms := make([]string, len(w.Texts))
	var each sync.WaitGroup
	for i, text := range w.Texts {
		each.Go(func() { p.IDs[i], froms[i] = t.text(ctx, a, text, approximate[i]) })
	}
	each.Wait()
	for _, from := range froms {
		p.From = least(p.From, from)
	}
	return p
}

// least is the less certain of two origins.
func least(a, b string) string {
	for _, from := range []string{request.FromText, Joined, FromEngine} {
		if a == from || b == from {
			return from
		}
	}
	return b
}

// asking is what all prompts of one request have in common.
type asking struct {
	base, model string // as resolved, and as the engines call it
	wording     *request.Wording
	generation  uint64 // of the model, see doubt
	doubtful    bool
}

func (t *Tokeniser) asking(q *Query, w *request.Wording) *asking {
	a := &asking{base: q.Base, model: q.Model, wording: w}
	t.mu.Lock()
	defer t.mu.Unlock()
	d, told := t.doubts[a.base]
	a.generation = d.generation
	if !told {
		a.generation = t.forgotten
	}
	a.doubtful = w.Doubt != "" || wallTime().Before(d.until)
	return a
}

// name is how ids from a source may be called.
func (a *asking) name(from string) string {
	if from != FromRender && a.doubtful {
		return request.FromText
	}
	return from
}

// harmony says whether one of these is the name of a gpt-oss model, whose chats
// engines serve by another format than their /tokenize answers in.
func harmony(names ...string) bool {
	for _, n := range names {
		n = strings.ReplaceAll(strings.ToLower(n), "_", "-")
		if strings.Contains(n, "gpt-oss") {
			return true
		}
	}
	return false
}

// text finds the ids of one text prompt.
func (t *Tokeniser) text(ctx context.Context, a *asking, text []byte, approximate []uint32) ([]uint32, string) {
	whole := t.hasher.text(a, text)
	if i, ok := t.cache.get(whole, wallTime()); ok {
		t.counts.hits.Add(1)
		return i.ids, a.name(i.from)
	}
	t.counts.misses.Add(1)
	cuts := request.SafeCuts(text, firstCut)
	p := t.planText(a, text, whole, cuts, t.hasher.cuts(a, text, cuts))
	if got, ok := t.fly(ctx, p); ok {
		return got.ids, a.name(got.from)
	}
	return follow(p.known, approximate), request.FromText
}

// chat finds the ids of a chat.
func (t *Tokeniser) chat(ctx context.Context, a *asking, approximate []uint32) ([]uint32, string) {
	whole, messages := t.hasher.chat(a)
	if i, ok := t.cache.get(whole, wallTime()); ok {
		t.counts.hits.Add(1)
		return i.ids, a.name(i.from)
	}
	t.counts.misses.Add(1)
	if !t.asker.silent(a.base, wallTime()) {
		p := &plan{asking: a, key: whole, messages: messages}
		t.write(p, nil)
		if got, ok := t.fly(ctx, p); ok {
			return got.ids, a.name(got.from)
		}
	}
	return follow(t.shorter(a), approximate), request.FromText
}

// generationPrompt is how many ids at the end of a chat another turn may change:
// what asks for the answer.
const generationPrompt = 32

// shorter is what is known of the beginning of a chat: the ids of the longest
// earlier part of it, without their end.
func (t *Tokeniser) shorter(a *asking) []uint32 {
	now := wallTime()
	keys := t.hasher.beginnings(a)
	for _, k := range slices.Backward(keys) {
		part, ok := t.cache.get(k, now)
		if !ok {
			continue
		}
		if whole, ok := t.cache.get(part.prompt, now); ok {
			return whole.ids[:max(0, len(whole.ids)-generationPrompt)]
		}
	}
	return nil
}

// follow is what is known of a beginning, and then the approximate ids from there
// on: about as many as there are, and equal to nothing that an engine has.
func follow(known, approximate []uint32) []uint32 {
	if len(known) == 0 {
		return approximate
	}
	ids := make([]uint32, 0, max(len(known), len(approximate)))
	ids = append(ids, known...)
	if len(known) < len(approximate) {
		ids = append(ids, approximate[len(known):]...)
	}
	return ids
}

// doubt is what the counts of engines say of a model's ids.
type doubt struct {
	generation uint64    // makes everything that is cached of the model unfindable
	until      time.Time // ids are called approximate
}

const (
	// doubtful is how long ids of a model are called approximate after its engine
	// has counted otherwise.
	doubtful   = time.Minute
	mostDoubts = 1024
)

// Told compares the number of ids that were given for a request with the number
// that its engine counted (usage.prompt_tokens). When they differ, what is known
// of the model is forgotten, and its ids are called approximate for a minute.
func (t *Tokeniser) Told(base, from string, ours, engines int) {
	if from != FromEngine && from != FromRender && from != Joined || ours == engines || engines < 0 {
		return
	}
	t.counts.mismatches.Add(1)
	now := wallTime()
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.doubts[base]
	if now.Before(d.until) {
		return // of ids from before
	}
	t.generation++
	if len(t.doubts) >= mostDoubts {
		clear(t.doubts)
		t.forgotten = t.generation
		t.generation++
	}
	t.doubts[base] = doubt{generation: t.generation, until: now.Add(doubtful)}
}
