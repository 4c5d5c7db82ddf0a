package picker

import (
	"context"

	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/tokens"
)

// Tokeniser finds the engines' own ids of prompts in words; [*tokens.Tokeniser] is
// one.
type Tokeniser interface {
	// Tokens returns in time, if need be with the ids that the request has.
	Tokens(ctx context.Context, q *tokens.Query) tokens.Prompts
	// Told is told how many tokens the engine has counted.
	Told(base, from string, ours, engines int)
}

// tokenise is the call's request with the ids that the tokeniser finds.
func (s *scratch) tokenise(ctx context.Context, t Tokeniser, c *Call, m *named) *request.Request {
	found := t.Tokens(ctx, &tokens.Query{Base: m.Base, Model: m.Served, Body: c.Body, Request: c.Request})
	s.exact = *c.Request
	s.exact.Retokenize(found.IDs, found.From)
	return &s.exact
}

// countable notes how many tokens the engine should count. Of several answers it
// may count the prompt several times.
func (k *Pick) countable(r *request.Request) {
	if k.picker.cfg.Tokeniser != nil && r.Choices <= 1 {
		k.tokensFrom, k.tokens = r.TokensFrom, r.TotalTokens
	}
}
