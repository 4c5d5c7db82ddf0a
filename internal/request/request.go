// Package request reads of an OpenAI-style body what routing needs: the model,
// whether the answer streams, and the token ids of the prompt.
//
// The one idea: a body belongs to the client. It is scanned, never decoded and
// written again, so what is forwarded is what was sent, byte for byte;
// [RewriteModel] exchanges one JSON string in place. Keys are matched as the
// engines match them: with regard to case, and of duplicates the last one wins.
//
//	r, err := request.Parse("/v1/completions", body, request.Limits{})
//
// Token ids come from the body itself, or from the approximate tokeniser that
// the simulated engines share (see tokens.go). The package does not read
// streams (the caller bounds the body), resolves no model names, and keeps
// neither the cache salt nor any text, though the ids of a text prompt can be
// turned back into it and are as secret.
package request

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"unicode/utf8"
)

// Kind is what an API path asks for.
type Kind uint8

// The kinds that differ for routing.
const (
	// Other is every path without a prompt prefix that we know how to build.
	Other Kind = iota
	// ChatCompletions is POST /v1/chat/completions.
	ChatCompletions
	// Completions is POST /v1/completions.
	Completions
)

// String is the name of the kind in logs.
func (k Kind) String() string {
	switch k {
	case ChatCompletions:
		return "chat"
	case Completions:
		return "completions"
	case Other:
	}
	return "other"
}

// Where the ids of a prompt came from.
const (
	// FromIDs: the client sent token ids.
	FromIDs = "ids"
	// FromText: the approximate tokeniser made them from text.
	FromText = "approximate"
)

// Limits bound what a body may ask for. Zero values mean the defaults.
type Limits struct {
	// Prompts is how many prompts one body may hold (default 4096).
	Prompts int
	// ModelBytes is how long a model's name may be (default 1024).
	ModelBytes int
}

const (
	defaultPrompts    = 4096
	defaultModelBytes = 1024
	maxChoices        = 128 // n of one request; OpenAI's own limit
)

func (l Limits) withDefaults() Limits {
	if l.Prompts == 0 {
		l.Prompts = defaultPrompts
	}
	if l.ModelBytes == 0 {
		l.ModelBytes = defaultModelBytes
	}
	return l
}

// Request is what routing, and a simulated engine, know of a body.
type Request struct {
	Kind  Kind
	Model string // "" only for Other: no readable JSON, or no model in it

	Stream       bool
	IncludeUsage bool // stream_options.include_usage

	MaxTokens    int  // of output; max_completion_tokens when both are given
	HasMaxTokens bool // whether either was given
	Choices      int  // n, at least 1

	// SaltHash is the hex of the first 16 bytes of SHA-256(cache_salt), "" for
	// a request without a salt.
	SaltHash string

	// Tokens are the ids of the routing prompt: the longest, and of equals the
	// first. TotalTokens counts those of all prompts.
	Tokens      []uint32
	TotalTokens int
	// PromptTokens are the ids of every prompt, in order.
	PromptTokens [][]uint32
	// TokensFrom is FromIDs or FromText, or where [Request.Retokenize] was told that
	// they come from; "" when NoPrefix says why there are none.
	TokensFrom string

	// NoPrefix says why there is no prefix to match, for people to read; ""
	// when there is one.
	NoPrefix string
}

// Parse reads the body of a request to path (without its query). Errors are
// [*Error]s fit for the client. Paths of kind [Other] accept any body. Memory
// is bounded by a small multiple of the body's size.
func Parse(path string, body []byte, limits Limits) (*Request, error) {
	limits = limits.withDefaults()
	switch path {
	case "/v1/chat/completions":
		return parseGenerate(ChatCompletions, body, limits)
	case "/v1/completions":
		return parseGenerate(Completions, body, limits)
	}
	r := &Request{Kind: Other, Choices: 1, NoPrefix: noPrefix(path)}
	if f, err := collect(body); err == nil {
		if model, err := f.model(limits); err == nil {
			r.Model = model
		}
		r.Stream = string(f[fStream]) == "true"
	}
	return r, nil
}

// noPrefix names the path only when it is a known one: a path is the client's
// text and may hold anything.
func noPrefix(path string) string {
	switch path {
	case "/v1/embeddings", "/v1/messages", "/v1/models", "/v1/responses", "/v1/rerank", "/v1/score",
		"/v1/audio/transcriptions", "/v1/audio/translations", "/tokenize", "/detokenize", "/health", "/version":
		return path + " has no prompt prefix"
	}
	return "this path has no prompt prefix"
}

func parseGenerate(kind Kind, body []byte, limits Limits) (*Request, error) {
	f, err := readable(body)
	if err != nil {
		return nil, err
	}
	r := &Request{Kind: kind}
	if r.Model, err = f.model(limits); err != nil {
		return nil, err
	}
	if err := f.options(r); err != nil {
		return nil, err
	}
	if err := f.prompts(r, limits); err != nil {
		return nil, err
	}
	r.route()
	return r, nil
}

// Tokenize reads a body of an engine's /tokenize: "prompt" as a text or
// "messages" as for chat, with or without a model.
func Tokenize(body []byte) (*Request, error) {
	f, err := readable(body)
	if err != nil {
		return nil, err
	}
	r := &Request{Kind: Completions, Choices: 1}
	if f[fModel] != nil {
		if r.Model, err = f.model(Limits{}.withDefaults()); err != nil {
			return nil, err
		}
	}
	switch {
	case f[fMessages] != nil:
		r.Kind = ChatCompletions
	case f[fPrompt] != nil && f[fPrompt][0] != '"':
		return nil, invalid("prompt", "must be a string")
	}
	if err := f.prompts(r, Limits{Prompts: 1}); err != nil {
		return nil, err
	}
	r.route()
	return r, nil
}

// Retokenize exchanges the ids of all prompts for others of the same prompts.
func (r *Request) Retokenize(prompts [][]uint32, from string) {
	r.PromptTokens, r.TokensFrom, r.Tokens, r.TotalTokens = prompts, from, nil, 0
	r.route()
}

// route chooses the prompt whose prefix decides.
func (r *Request) route() {
	for i, prompt := range r.PromptTokens {
		r.TotalTokens += len(prompt)
		if i == 0 || len(prompt) > len(r.Tokens) {
			r.Tokens = prompt
		}
	}
}

// A field is a member of the body that we read.
type field uint8

// The order of the fields that configure a chat template is the order in which
// they are rendered.
const (
	fChatTemplate field = iota
	fChatTemplateKwargs
	fReasoningEffort
	fDocuments
	fTools
	configFields // how many of them

	fModel = iota - 1
	fStream
	fStreamOptions
	fMaxTokens
	fMaxCompletionTokens
	fChoices
	fCacheSalt
	fPrompt
	fPromptEmbeds
	fMessages
	fAddGenerationPrompt
	fContinueFinalMessage
	fieldCount
)

var fieldNames = map[string]field{
	"chat_template":          fChatTemplate,
	"chat_template_kwargs":   fChatTemplateKwargs,
	"reasoning_effort":       fReasoningEffort,
	"documents":              fDocuments,
	"tools":                  fTools,
	"model":                  fModel,
	"stream":                 fStream,
	"stream_options":         fStreamOptions,
	"max_tokens":             fMaxTokens,
	"max_completion_tokens":  fMaxCompletionTokens,
	"n":                      fChoices,
	"cache_salt":             fCacheSalt,
	"prompt":                 fPrompt,
	"prompt_embeds":          fPromptEmbeds,
	"messages":               fMessages,
	"add_generation_prompt":  fAddGenerationPrompt,
	"continue_final_message": fContinueFinalMessage,
}

// fields are the texts of the members as written; nil when absent or null.
type fields [fieldCount][]byte

// collect finds the members; later duplicates replace earlier ones.
func collect(body []byte) (*fields, error) {
	var f fields
	err := topLevel(body, func(key, value []byte) error {
		if i, ok := lookup(fieldNames, key); ok {
			f[i] = nonNull(value)
		}
		return nil
	})
	return &f, err
}

func lookup[F ~uint8](names map[string]F, key []byte) (F, bool) {
	bare := key[1 : len(key)-1]
	if bytes.IndexByte(bare, '\\') >= 0 {
		bare = unquote(key)
	}
	i, ok := names[string(bare)]
	return i, ok
}

func nonNull(value []byte) []byte {
	if value[0] == 'n' {
		return nil
	}
	return value
}

// readable is collect with an error for the client.
func readable(body []byte) (*fields, error) {
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return nil, invalid("body", "the body is empty; send a JSON object")
	case bytes.HasPrefix(body, []byte{0x1f, 0x8b}):
		return nil, invalid("body", "the body is compressed (gzip); send it uncompressed")
	case !utf8.Valid(body):
		return nil, invalid("body", "the body is not valid UTF-8")
	}
	f, err := collect(body)
	if err != nil {
		return nil, invalid("body", "the body is not the JSON object that this path needs: %v", err)
	}
	return f, nil
}

func (f *fields) model(limits Limits) (string, error) {
	text := f[fModel]
	switch {
	case text == nil:
		return "", invalid("model", "name a model")
	case text[0] != '"':
		return "", invalid("model", "must be a string")
	}
	model := unquote(text)
	switch {
	case len(model) == 0:
		return "", invalid("model", "name a model")
	case len(model) > limits.ModelBytes:
		return "", invalid("model", "longer than %d bytes", limits.ModelBytes)
	}
	return string(model), nil
}

// options reads everything but the model and the prompts.
func (f *fields) options(r *Request) (err error) {
	if r.Stream, err = truth("stream", f[fStream]); err != nil {
		return err
	}
	if r.IncludeUsage, err = f.includeUsage(); err != nil {
		return err
	}
	name, text := "max_completion_tokens", f[fMaxCompletionTokens]
	if text == nil {
		name, text = "max_tokens", f[fMaxTokens]
	}
	if text != nil {
		r.HasMaxTokens = true
		if r.MaxTokens, err = natural(name, text, math.MaxInt32); err != nil {
			return err
		}
	}
	r.Choices = 1
	if text := f[fChoices]; text != nil {
		if r.Choices, err = natural("n", text, maxChoices); err != nil {
			return err
		}
	}
	r.SaltHash, err = f.saltHash()
	return err
}

func (f *fields) includeUsage() (usage bool, err error) {
	text := f[fStreamOptions]
	if text == nil {
		return false, nil
	}
	if text[0] != '{' {
		return false, invalid("stream_options", "must be an object")
	}
	err = members(text, func(key, value []byte) (err error) {
		if keyIs(key, "include_usage") {
			usage, err = truth("stream_options.include_usage", nonNull(value))
		}
		return err
	})
	return usage, err
}

// saltHash hashes the salt; the salt itself goes no further than here. An empty
// one is an error, as in vLLM: the client believes that it is isolated.
func (f *fields) saltHash() (string, error) {
	text := f[fCacheSalt]
	if text == nil {
		return "", nil
	}
	if text[0] != '"' || len(text) == 2 {
		return "", invalid("cache_salt", "must be a string that is not empty")
	}
	sum := sha256.Sum256(unquote(text))
	return hex.EncodeToString(sum[:16]), nil
}

// truth reads a boolean, also in the numeric form that engines accept.
func truth(name string, text []byte) (bool, error) {
	switch string(text) {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, invalid(name, "must be true or false")
}

// natural reads a whole number from 1 to most. Engines also take 16.0 for 16.
func natural(name string, text []byte, most int) (int, error) {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || v != math.Trunc(v) || v < 1 || v > float64(most) {
		return 0, invalid(name, "must be a whole number from 1 to %d", most)
	}
	return int(v), nil
}
