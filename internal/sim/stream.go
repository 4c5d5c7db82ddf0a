package sim

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// A piece is what one sequence has new for the stream.
type piece struct {
	index  int
	ids    []uint32
	reason vllm.Reason // "" while it goes on
}

// stream sends tokens as they come. The first byte leaves with the first token.
// Tokens that came while the last piece was being sent go out in one chunk, as
// vLLM does with a slow reader.
func (g *generation) stream(ctx context.Context, w http.ResponseWriter) {
	sent := make([]int, len(g.sequences))
	var buf []byte
	out := http.NewResponseController(w)
	for open := len(g.sequences); open > 0; {
		if g.wait(ctx) != nil {
			cut()
		}
		pieces := g.collect(sent)
		if buf == nil {
			if g.server.pod.answers.pass(ctx) != nil {
				cut()
			}
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			buf = g.appendRoles(make([]byte, 0, 4096))
		}
		for _, p := range pieces {
			buf = g.appendChunk(buf, p)
			if p.reason != "" {
				open--
			}
		}
		if open == 0 {
			buf = g.appendEnd(buf)
		}
		if _, err := w.Write(buf); err != nil || out.Flush() != nil {
			cut()
		}
		buf = buf[:0]
	}
	g.observe()
}

// collect takes what is new since the last call.
func (g *generation) collect(sent []int) []piece {
	g.server.mu.Lock()
	defer g.server.mu.Unlock()
	var pieces []piece
	for i, q := range g.sequences {
		if len(q.Output) == sent[i] {
			continue
		}
		p := piece{index: i, ids: q.Output[sent[i]:]} // written bytes never change
		sent[i] = len(q.Output)
		if q.State == vllm.Finished {
			p.reason = q.Reason
		}
		pieces = append(pieces, p)
	}
	return pieces
}

// head opens a chunk up to its choices.
func (g *generation) head(buf []byte) []byte {
	object := "text_completion"
	if g.req.Kind == request.ChatCompletions {
		object = "chat.completion.chunk"
	}
	buf = append(buf, `data: {"id":`...)
	buf = appendString(buf, g.id)
	buf = append(append(append(buf, `,"object":"`...), object...), `","created":`...)
	buf = strconv.AppendInt(buf, g.created, 10)
	buf = append(buf, `,"model":`...)
	return appendString(buf, g.req.Model)
}

// appendString writes a client's text as a JSON string.
func appendString(buf []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil { // strings always marshal
		return append(buf, `""`...)
	}
	return append(buf, text...)
}

// appendRoles opens the messages of a chat answer.
func (g *generation) appendRoles(buf []byte) []byte {
	if g.req.Kind != request.ChatCompletions {
		return buf
	}
	for i := range g.sequences {
		buf = append(g.head(buf), `,"choices":[{"index":`...)
		buf = strconv.AppendInt(buf, int64(i), 10)
		buf = append(buf, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`+"\n\n"...)
	}
	return buf
}

func (g *generation) appendChunk(buf []byte, p piece) []byte {
	buf = append(g.head(buf), `,"choices":[{"index":`...)
	buf = strconv.AppendInt(buf, int64(p.index), 10)
	opened, closed := `,"text":"`, `"`
	if g.req.Kind == request.ChatCompletions {
		opened, closed = `,"delta":{"content":"`, `"}`
	}
	buf = append(buf, opened...)
	buf = g.server.pod.fleet.appendText(buf, p.ids) // words of letters need no escaping
	buf = append(buf, closed...)
	buf = append(buf, `,"logprobs":null,"finish_reason":`...)
	if p.reason == "" {
		buf = append(buf, `null`...)
	} else {
		buf = appendString(buf, string(p.reason))
	}
	return append(buf, `,"stop_reason":null}]}`+"\n\n"...)
}

// appendEnd writes the usage, when it was asked for, and the end mark.
func (g *generation) appendEnd(buf []byte) []byte {
	if g.req.IncludeUsage {
		u, err := json.Marshal(g.usage())
		if err == nil {
			buf = append(append(append(g.head(buf), `,"choices":[],"usage":`...), u...), `,"system_fingerprint":"`+fingerprint+`"}`+"\n\n"...)
		}
	}
	return append(buf, "data: [DONE]\n\n"...)
}
