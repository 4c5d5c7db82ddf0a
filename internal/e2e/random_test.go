package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

var seedFlag = flag.Uint64("e2e.seed", 0, "seed of the randomised requests; 0 = another one each time")

// 500 requests of every kind that is served, 8 at a time: what a pod gets is what
// the client sent, and what the client gets is what the pod sent, byte for byte.
func TestRandomRequests(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("again with: go test ./internal/e2e -run '^TestRandomRequests$' -e2e.seed=%d", seed)
	const requests, atOnce = 500, 8
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			r := build(t, d.setup)
			var sent [requests / 4]*call
			for i := range sent {
				sent[i] = randomCall(rng)
			}
			var answers [len(sent)]*answer
			var clients sync.WaitGroup
			for first := range atOnce {
				clients.Go(func() {
					for i := first; i < len(sent); i += atOnce {
						answers[i] = r.send(t.Context(), sent[i])
					}
				})
			}
			clients.Wait()
			for i, c := range sent {
				want := served
				want.usage = c.script.Bytes == 0
				t.Run(c.id, func(t *testing.T) {
					r.tell(t, c, answers[i], want)
					got(t, c, answers[i])
				})
			}
		})
	}
}

// randomCall is a request that must be served.
func randomCall(rng *rand.Rand) *call {
	c := &call{h2: rng.IntN(2) == 0}
	switch rng.IntN(4) {
	case 0:
		c.script = script{Events: 1 + rng.IntN(60)}
	case 1:
		c.script = script{Bytes: 1 << rng.IntN(21), Seed: rng.Uint64()}
	}
	if rng.IntN(4) == 0 {
		c.script.Trailer = randomWord(rng)
	}
	if rng.IntN(8) == 0 {
		c.method, c.path = http.MethodGet, "/v1/models?after="+randomWord(rng)
		return c
	}
	c.renamed = c.script.Bytes == 0 && rng.IntN(4) == 0
	c.body = randomBody(rng, c)
	if rng.IntN(2) == 0 {
		c.pieces = 1 + rng.IntN(12)
	}
	if rng.IntN(4) == 0 {
		c.trailer = randomWord(rng)
	}
	return c
}

func randomWord(rng *rand.Rand) string { return fmt.Sprintf("w%x", rng.Uint64()) }

// randomBody is a request with odd spacing, an odd order of its keys, and things
// in it that a decoder would change.
func randomBody(rng *rand.Rand, c *call) []byte {
	name := model
	if c.renamed {
		name = alias
	}
	text := randomText(rng, 1<<rng.IntN(20))
	fields := []string{
		fmt.Sprintf("%q:%s%q", "model", space(rng), name),
		`"seed":9007199254740993`, `"whatever":1e400`, `"nested":{"a":[1.50,-0,"\u0000\ud800"],"a":null}`,
		fmt.Sprintf("%q:%t", "stream", c.script.Events > 0),
	}
	if rng.IntN(2) == 0 {
		c.path = chat
		fields = append(fields, `"messages":[{"role":"user","content":`+text+`}]`)
	} else {
		fields = append(fields, `"prompt":`+text)
	}
	rng.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	var b strings.Builder
	b.WriteString(space(rng) + "{")
	for i, f := range fields {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(space(rng) + f + space(rng))
	}
	b.WriteString("}" + space(rng))
	return []byte(b.String())
}

func space(rng *rand.Rand) string {
	return strings.Repeat(" ", rng.IntN(3)) + strings.Repeat("\r\n\t", rng.IntN(2))
}

// randomText is a JSON string of about n bytes.
func randomText(rng *rand.Rand, n int) string {
	alphabet := []rune("abcdefghij klmnop äöü 漢字 🙂\n\t\"\\/<>&")
	runes := make([]rune, n/2)
	for i := range runes {
		runes[i] = alphabet[rng.IntN(len(alphabet))]
	}
	text, err := json.Marshal(string(runes))
	if err != nil { // strings always marshal
		panic(err)
	}
	return string(text)
}
