package load

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// The shape of the made-up conversations: a few system prompts that many share,
// and turns that each build on all before them.
const (
	systemPrompts = 4
	systemWords   = 300
	questionWords = 60
	maxTurns      = 8
	answerTokens  = 96
)

// The number of conversations that wait for their next turn. Below enoughIdle one
// request in four opens a new one, where one in maxTurns would keep their number, so
// it grows; from there on none is opened until some have ended, so it stays. Answers
// that come back in a burst may exceed it: beyond maxIdle the one that waited longest
// is given up.
const (
	enoughIdle = 64
	maxIdle    = 4 * enoughIdle
)

// longestGap bounds the time between two requests, at rates that would overflow it.
const longestGap = 365 * 24 * time.Hour

// Conversations makes up chats at a given rate of requests (a Poisson process).
// It is safe for concurrent use by one reader and many finishers.
type Conversations struct {
	rate  float64 // requests a second of the picker's clock
	model string
	rng   *rand.Rand
	at    time.Duration

	mu   sync.Mutex
	idle []*conversation // in the order in which they were answered
}

type conversation struct {
	messages []message
	turns    int
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// NewConversations makes traffic of rate requests a second, the same for the
// same seed as long as answers arrive in the same order.
func NewConversations(rate float64, seed uint64) *Conversations {
	return &Conversations{rate: rate, rng: rand.New(rand.NewPCG(seed, 0x5eed))}
}

// Close implements [Source].
func (c *Conversations) Close() error { return nil }

// Next returns the next turn of a conversation that waits for one, or the first
// of a new one. There is no end.
func (c *Conversations) Next() (*Arrival, error) {
	gap := min(c.rng.ExpFloat64()/c.rate, longestGap.Seconds())
	c.at += time.Duration(gap * float64(time.Second))
	conv := c.take()
	conv.messages = append(conv.messages, message{"user", words(c.rng, questionWords)})
	body, err := json.Marshal(map[string]any{
		"model": c.model, "messages": conv.messages, "max_tokens": answerTokens, "stream": conv.turns%2 == 1,
		"stream_options": streamOptions(conv.turns%2 == 1),
	})
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	return &Arrival{At: c.at, Path: "/v1/chat/completions", Body: body, conversation: conv}, nil
}

// streamOptions asks for the usage of a stream; a request that is not streamed
// must not have them.
func streamOptions(stream bool) any {
	if !stream {
		return nil
	}
	return map[string]bool{"include_usage": true}
}

// take is the conversation whose next turn is due: any that waits, or a new one.
func (c *Conversations) take() *conversation {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.idle)
	if open := n == 0 || n < enoughIdle && c.rng.IntN(4) == 0; !open {
		i := c.rng.IntN(n)
		conv := c.idle[i]
		c.idle = slices.Delete(c.idle, i, i+1)
		return conv
	}
	which := rand.New(rand.NewPCG(uint64(c.rng.IntN(systemPrompts)), 1))
	return &conversation{messages: []message{{"system", words(which, systemWords)}}}
}

// answered continues the conversation, or drops it at its last turn or a failure.
func (c *Conversations) answered(conv *conversation, answer string, ok bool) {
	if conv.turns++; !ok || conv.turns >= maxTurns {
		return
	}
	conv.messages = append(conv.messages, message{"assistant", answer})
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) == maxIdle {
		c.idle = slices.Delete(c.idle, 0, 1)
	}
	c.idle = append(c.idle, conv)
}

// words makes text of n words.
func words(rng *rand.Rand, n int) string {
	const letters = "etaoinshrdlu"
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		for range 2 + rng.IntN(6) {
			b.WriteByte(letters[rng.IntN(len(letters))])
		}
	}
	return b.String()
}

var (
	_ Source = (*Conversations)(nil)
	_ Source = (*Trace)(nil)
)
