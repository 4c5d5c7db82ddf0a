package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// chatPath is where all requests go.
const chatPath = "/v1/chat/completions"

// maxPromptBytes bounds the bodies that are made before the load begins.
const maxPromptBytes = 1 << 30

// workload is what distinguishes the requests of a run.
type workload struct {
	model   string
	bytes   int // of one body
	prompts int // that differ
}

// bodies makes the chat requests: the same ones in every process, so that the
// fleet can say that it holds their prefixes.
func (w workload) bodies() ([][]byte, error) {
	if w.prompts < 1 {
		return nil, fmt.Errorf("--prompts: must be 1 or more, got %d", w.prompts)
	}
	if w.bytes > maxPromptBytes/w.prompts {
		return nil, fmt.Errorf("--prompts %d of --body %d bytes: more than %d bytes together", w.prompts, w.bytes, maxPromptBytes)
	}
	out := make([][]byte, w.prompts)
	for i := range out {
		var err error
		if out[i], err = w.body(i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// answer is what a pod answers: it had all of the prompt in its cache, as the fleet
// reports.
func (w workload) answer() []byte {
	const bytesPerToken = 4
	prompt := w.bytes / bytesPerToken
	return fmt.Appendf(nil, `{"id":"chatcmpl-7d1f","object":"chat.completion","created":1764504000,"model":%q,"choices":[{"index":0,`+
		`"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"total_tokens":%d,`+
		`"completion_tokens":64,"prompt_tokens_details":{"cached_tokens":%d}}}`,
		w.model, strings.Repeat("All of it is well. ", 12), prompt, prompt+64, prompt)
}

// body is the nth prompt: a system prompt of three quarters and a question, with
// line ends and quotes as text has them.
func (w workload) body(n int) ([]byte, error) {
	model, err := json.Marshal(w.model)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf(`{"model":%s,"messages":[{"role":"system","content":"`, model)
	const middle, tail = `"},{"role":"user","content":"`, `"}],"max_tokens":64,"stream":false}`
	room := w.bytes - len(head) - len(middle) - len(tail)
	if room < 64 {
		return nil, fmt.Errorf("--body: must be %d bytes or more for this model, got %d", w.bytes-room+64, w.bytes)
	}
	rng := rand.New(rand.NewPCG(uint64(n), 0x9e37))
	return []byte(head + text(rng, room-room/4) + middle + text(rng, room/4) + tail), nil
}

// text makes n bytes of words, as they stand within a JSON string.
func text(rng *rand.Rand, n int) string {
	const letters = "etaoinshrdlu"
	var b strings.Builder
	for word := 1; b.Len() < n; word++ {
		switch {
		case word%64 == 0:
			b.WriteString(`.\n`)
		case word%40 == 0:
			b.WriteString(`\"`)
		default:
			b.WriteByte(' ')
		}
		for range 2 + rng.IntN(6) {
			b.WriteByte(letters[rng.IntN(len(letters))])
		}
	}
	cut := b.String()[:n]
	if kept, ok := strings.CutSuffix(cut, `\`); ok { // half of an escape
		return kept + "."
	}
	return cut
}

// size is a flag for a number of bytes: 1024, 1KB, 16MiB.
type size int

func (s *size) String() string { return strconv.Itoa(int(*s)) }

func (s *size) Set(text string) error {
	unit := 1
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(text), "B"), "I")
	if short, ok := strings.CutSuffix(number, "K"); ok {
		number, unit = short, 1<<10
	} else if short, ok := strings.CutSuffix(number, "M"); ok {
		number, unit = short, 1<<20
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > maxPromptBytes/unit {
		return fmt.Errorf("want bytes from 1 to 1024MB, such as 400KB")
	}
	*s = size(n * unit)
	return nil
}
