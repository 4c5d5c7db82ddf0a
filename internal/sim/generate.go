package sim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *apiError) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, &apiError{status: http.StatusBadRequest, message: "the body is too long or was cut off"}
	}
	return body, nil
}

func fromParser(err error) *apiError {
	if e, ok := errors.AsType[*request.Error](err); ok {
		return &apiError{status: e.Status, param: e.Param, message: e.Message}
	}
	return &apiError{status: http.StatusBadRequest, message: err.Error()}
}

// maxSequences bounds what one request may ask of an engine.
const maxSequences = 1024

// A generation is a request while it is served: one sequence for each choice
// of each prompt, in the order of their indexes in the answer.
type generation struct {
	server    *server
	req       *request.Request
	id        string
	created   int64
	sequences []*vllm.Sequence
	news      chan struct{} // some sequence has something new
}

// generate serves both kinds of completions.
func (s *server) generate(w http.ResponseWriter, r *http.Request) {
	body, failure := readBody(w, r)
	if failure != nil {
		writeError(w, failure)
		return
	}
	g, failure := s.prepare(r, body)
	if failure != nil {
		writeError(w, failure)
		return
	}
	if err := s.submit(g.sequences...); err != nil {
		writeError(w, refusal(err))
		return
	}
	defer s.abort(g.sequences...) // a client that hangs up frees what it had
	if g.req.Stream {
		g.stream(r.Context(), w)
	} else {
		g.answer(r.Context(), w)
	}
}

func (s *server) prepare(r *http.Request, body []byte) (*generation, *apiError) {
	req, err := request.Parse(r.URL.Path, body, request.Limits{})
	if err != nil {
		return nil, fromParser(err)
	}
	if req.NoPrefix != "" {
		return nil, &apiError{status: http.StatusBadRequest, message: "not supported: " + req.NoPrefix}
	}
	adapter, failure := s.adapter(req.Model)
	if failure != nil {
		return nil, failure
	}
	if req.MaxTokens > vllm.DefaultMaxLength {
		return nil, &apiError{status: http.StatusBadRequest, param: "max_tokens", message: fmt.Sprintf(
			"max_tokens=%d cannot be greater than max_model_len=%d. Please request fewer output tokens. (parameter=max_tokens, value=%d)",
			req.MaxTokens, vllm.DefaultMaxLength, req.MaxTokens)}
	}
	if n := len(req.PromptTokens) * req.Choices; n > maxSequences {
		return nil, &apiError{status: http.StatusBadRequest, param: "n", message: fmt.Sprintf(
			"%d answers are asked for; this engine gives at most %d a request", n, maxSequences)}
	}
	g := &generation{
		server: s, req: req, created: s.pod.fleet.cfg.Clock.Now().Unix(),
		id: answerID(req.Kind, requestID(r)), news: make(chan struct{}, 1),
	}
	g.addSequences(adapter, body)
	return g, nil
}

func (g *generation) addSequences(adapter string, body []byte) {
	req, salt := g.req, ""
	if g.server.events != nil && req.SaltHash != "" {
		salt = saltOf(body)
	}
	for _, ids := range req.PromptTokens {
		prompt := ids
		if req.TokensFrom == request.FromText {
			prompt = g.server.pod.fleet.prompt(ids, special(req.Kind, body))
		}
		for choice := range req.Choices {
			g.sequences = append(g.sequences, &vllm.Sequence{
				Prompt: prompt, Adapter: adapter, SaltHash: req.SaltHash, Salt: salt, MaxTokens: req.MaxTokens,
				Choice: uint64(choice), Stream: req.Stream, Progress: g.progress,
			})
		}
	}
}

// saltOf is the cache salt of a body that the parser took. The parser keeps no
// more than its hash, while engines tell the salt itself in their events.
func saltOf(body []byte) string {
	var salted struct {
		Salt string `json:"cache_salt"`
	}
	if json.Unmarshal(body, &salted) != nil {
		return ""
	}
	return salted.Salt
}

func answerID(kind request.Kind, requestID string) string {
	prefix := "cmpl-"
	if kind == request.ChatCompletions {
		prefix = "chatcmpl-"
	}
	if requestID == "" {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		requestID = hex.EncodeToString(b[:])
	}
	return prefix + requestID
}

// refusal puts what the engine said in the words of vLLM.
func refusal(err error) *apiError {
	e, ok := errors.AsType[*vllm.LengthError](err)
	if !ok {
		return &apiError{status: http.StatusBadRequest, message: err.Error()}
	}
	text := fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt contains %d input tokens, "+
		"which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=%d)",
		e.Limit, e.Prompt, e.Prompt)
	if e.Prompt < e.Limit {
		text = fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains %d input tokens, "+
			"for a total of %d tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=%d)",
			e.Limit, e.MaxTokens, e.Prompt, e.Prompt+e.MaxTokens, e.Prompt)
	}
	return &apiError{status: http.StatusBadRequest, param: "input_tokens", message: text}
}

// progress is called by the engine, under its lock.
func (g *generation) progress() {
	select {
	case g.news <- struct{}{}:
	default: // the reader has yet to look at the last news
	}
}

// wait waits for news.
func (g *generation) wait(ctx context.Context) error {
	select {
	case <-g.news:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cut ends a handler whose client or server is gone. A plain return would send
// an empty answer with status 200, which a killed engine would not.
func cut() { panic(http.ErrAbortHandler) }

// done says whether all sequences have finished.
func (g *generation) done() bool {
	g.server.mu.Lock()
	defer g.server.mu.Unlock()
	for _, q := range g.sequences {
		if q.State != vllm.Finished {
			return false
		}
	}
	return true
}

// answer sends the whole answer when it is there.
func (g *generation) answer(ctx context.Context, w http.ResponseWriter) {
	for !g.done() {
		if g.wait(ctx) != nil {
			cut()
		}
	}
	g.observe()
	if g.server.pod.answers.pass(ctx) != nil {
		cut()
	}
	doc := completion{ID: g.id, Object: "text_completion", Created: g.created, Model: g.req.Model, Usage: g.usage(), Fingerprint: fingerprint}
	if g.req.Kind == request.ChatCompletions {
		doc.Object = "chat.completion"
	}
	for i, q := range g.sequences {
		c := choice{Index: i, FinishReason: q.Reason}
		text := string(g.server.pod.fleet.appendText(nil, q.Output))
		if g.req.Kind == request.ChatCompletions {
			c.Message = &message{Role: "assistant", Content: text}
		} else {
			c.Text = &text
		}
		doc.Choices = append(doc.Choices, c)
	}
	writeJSON(w, http.StatusOK, doc)
}

// observe notes the times for /metrics. All sequences must have finished.
func (g *generation) observe() {
	for _, q := range g.sequences {
		g.server.timings.observe(q)
	}
}

// usage sums over the prompts. Of several choices of one prompt the first
// counts, since the others find what it has stored.
func (g *generation) usage() *usage {
	u := &usage{}
	for i, q := range g.sequences {
		u.Completion += len(q.Output)
		if i%g.req.Choices == 0 {
			u.Prompt += len(q.Prompt)
			u.Details.Cached += q.Cached
		}
	}
	u.Total = u.Prompt + u.Completion
	return u
}

const fingerprint = "vllm-" + version + "-sim"

// The forms of an answer that is not streamed.
type completion struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Created     int64    `json:"created"`
	Model       string   `json:"model"`
	Choices     []choice `json:"choices"`
	Fingerprint string   `json:"system_fingerprint"`
	Usage       *usage   `json:"usage"`
}

type choice struct {
	Index        int         `json:"index"`
	Message      *message    `json:"message,omitempty"`
	Text         *string     `json:"text,omitempty"`
	Logprobs     any         `json:"logprobs"`
	FinishReason vllm.Reason `json:"finish_reason"`
	StopReason   any         `json:"stop_reason"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Total      int `json:"total_tokens"`
	Completion int `json:"completion_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}
