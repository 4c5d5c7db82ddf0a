package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// model is what all pods serve, alias another name for it.
const (
	model = "base-model"
	alias = "a-much-longer-name-of-the-model"
)

// scriptHeader carries a script from the client to the pod.
const scriptHeader = "X-E2e-Script"

// A script is how a pod answers a request. The zero value is a JSON answer with
// usage.
type script struct {
	Status int           `json:"status,omitempty"` // 0 = 200
	Events int           `json:"events,omitempty"` // a stream of that many tokens in place of JSON
	Bytes  int           `json:"bytes,omitempty"`  // so many random bytes in place of JSON
	Seed   uint64        `json:"seed,omitempty"`   // of Bytes
	Pause  time.Duration `json:"pause,omitempty"`  // between the pieces of the answer
	Hold   place         `json:"hold,omitempty"`   // stop there until the test says to go on, or the caller leaves
	Abort  place         `json:"abort,omitempty"`  // cut the connection there
	// Trailer is sent after the body.
	Trailer string `json:"trailer,omitempty"`
	// Busy is how many attempts at this request get a 503 before one is answered.
	Busy int `json:"busy,omitempty"`
}

// A place is where an answer stops.
type place string

const (
	beforeAnswer place = "before"
	midAnswer    place = "middle"
)

// trailerName is the trailer that pods and clients send.
const trailerName = "X-E2e-Trailer"

// The usage of every answer that has one.
const promptTokens, cachedTokens = 9, 8

func (s *script) outputTokens() int { return max(s.Events, 4) }

func (s *script) status() int { return cmp.Or(s.Status, http.StatusOK) }

// pieces is the answer's body as a pod that takes itself for name writes it.
func (s *script) pieces(name string) [][]byte {
	switch {
	case s.Events > 0:
		return s.events(name)
	case s.Bytes > 0:
		return s.random()
	case s.status() != http.StatusOK:
		return [][]byte{[]byte(`{"error":{"message":"the pod `), []byte(`says no","type":"server_error"}}`)}
	}
	return [][]byte{
		fmt.Appendf(nil, `{"id":"cmpl-1","object":"text_completion","model":%q,"choices":[{"index":0,"text":"four wo`, name),
		fmt.Appendf(nil, `rds","finish_reason":"stop"}],"usage":%s}`, s.usage()),
	}
}

func (s *script) events(name string) [][]byte {
	pieces := make([][]byte, 0, s.Events+2)
	for i := range s.Events {
		pieces = append(pieces, fmt.Appendf(nil, "data: {\"id\":\"cmpl-1\",\"model\":%q,\"choices\":[{\"index\":0,\"text\":\" word%d\"}],\"usage\":null}\n\n", name, i))
	}
	pieces = append(pieces, fmt.Appendf(nil, "data: {\"id\":\"cmpl-1\",\"model\":%q,\"choices\":[],\"usage\":%s}\n\n", name, s.usage()))
	return append(pieces, []byte("data: [DONE]\n\n"))
}

func (s *script) usage() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`,
		promptTokens, s.outputTokens(), promptTokens+s.outputTokens(), cachedTokens)
}

func (s *script) random() [][]byte {
	rng := rand.New(rand.NewPCG(s.Seed, 1))
	var pieces [][]byte
	for left := s.Bytes; left > 0; {
		n := min(1+rng.IntN(20_000), left)
		piece := make([]byte, n)
		for i := range piece {
			piece[i] = byte(rng.Uint32())
		}
		pieces, left = append(pieces, piece), left-n
	}
	return pieces
}

func (s *script) contentType() string {
	switch {
	case s.Events > 0:
		return "text/event-stream"
	case s.Bytes > 0:
		return "application/octet-stream"
	}
	return "application/json"
}

func (s *script) header() string {
	text, err := json.Marshal(s)
	if err != nil { // numbers and words always marshal
		panic(err)
	}
	return string(text)
}
