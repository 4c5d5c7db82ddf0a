package e2e

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"time"
)

// What the pod has sent of a stream reaches the client before there is more.
func TestEventsAreNotHeldBack(t *testing.T) {
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			r := build(t, d.setup)
			for _, h2 := range []bool{false, true} {
				c := &call{h2: h2, body: completion(model, 20, true), script: script{Events: 20, Hold: midAnswer}}
				res, err := r.open(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				pieces := c.script.pieces(model)
				half := make([]byte, len(bytes.Join(pieces[:len(pieces)/2], nil)))
				if _, err := io.ReadFull(res.Body, half); err != nil {
					t.Fatalf("half of the stream is held back: %v", err)
				}
				r.fleet.release(c.id)
				a := read(res, nil)
				a.body = append(half, a.body...)
				r.tell(t, c, a, served)
				got(t, c, a)
			}
		})
	}
}

func TestManyStreamsAtOnce(t *testing.T) {
	for _, d := range doors[1:3] {
		t.Run(d.name, func(t *testing.T) {
			r := build(t, d.setup)
			var sent [200]call
			var answers [len(sent)]*answer
			var wg sync.WaitGroup
			for i := range sent {
				sent[i] = call{h2: i%2 == 0, body: completion(model, 100+i, true), script: script{Events: 40, Pause: 5 * time.Millisecond}}
				wg.Go(func() { answers[i] = r.send(t.Context(), &sent[i]) })
			}
			wg.Wait()
			for i := range sent {
				rec := r.tell(t, &sent[i], answers[i], served)
				got(t, &sent[i], answers[i])
				if rec != nil && (rec.Outcome.TTFTSeconds == nil || !rec.Request.Stream) {
					t.Errorf("%s: TTFT %v, stream %t", sent[i].id, rec.Outcome.TTFTSeconds, rec.Request.Stream)
				}
			}
		})
	}
}

// A request without an ID gets one, which everybody uses.
func TestRequestIDIsMade(t *testing.T) {
	r := build(t, setup{})
	c := &call{body: small}
	c.prepare()
	req, err := c.request(t.Context(), "http://"+r.envoy.front, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Del("X-Request-Id")
	a := read(r.clients.h1.Do(req))
	if c.id = a.header.Get("X-Request-Id"); c.id == "" {
		t.Fatalf("no ID on the answer: %d, error %v", a.status, a.err)
	}
	r.tell(t, c, a, served)
	got(t, c, a)
}
