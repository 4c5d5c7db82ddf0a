package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
)

// case P2: the client hangs up.
func TestClientHangsUp(t *testing.T) {
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			r := build(t, d.setup)
			for _, h2 := range []bool{false, true} {
				t.Run(fmt.Sprintf("before a pod is picked, h2 %t", h2), func(t *testing.T) { hangUpUploading(t, r, h2) })
				t.Run(fmt.Sprintf("while the pod thinks, h2 %t", h2), func(t *testing.T) { hangUpWaiting(t, r, h2) })
				t.Run(fmt.Sprintf("in the middle of a stream, h2 %t", h2), func(t *testing.T) { hangUpReading(t, r, h2) })
			}
		})
	}
}

func hangUpUploading(t *testing.T, r *rig, h2 bool) {
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	c := &call{h2: h2, body: completionOf(200 << 10)}
	c.prepare()
	source, sink := io.Pipe()
	req, err := c.request(ctx, "http://"+r.envoy.front, source)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan *answer, 1)
	go func() { answered <- read(r.clients.of(h2).Do(req)) }()
	if _, err := sink.Write(c.body[:100<<10]); err != nil {
		t.Fatal(err)
	}
	r.streams(t, 1) // the picker waits for the rest of the body
	hangUp()
	sink.CloseWithError(context.Canceled) // a mere end would complete the body
	if a := <-answered; a.err == nil {
		t.Errorf("the client got %d", a.status)
	}
	r.tell(t, c, &answer{}, story{flags: left(h2), unpicked: true})
	r.streams(t, 0)
}

func hangUpWaiting(t *testing.T, r *rig, h2 bool) {
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	c := &call{h2: h2, body: small, script: script{Hold: beforeAnswer}}
	c.prepare()
	answered := make(chan *answer, 1)
	go func() { answered <- r.send(ctx, c) }()
	until(t, "the pod has the request", func() bool { return len(r.fleet.seen(c.id)) == 1 })
	hangUp()
	if a := <-answered; a.err == nil {
		t.Errorf("the client got %d", a.status)
	}
	r.tell(t, c, &answer{}, story{attempts: 1, flags: left(h2), err: "client-gone"})
	r.told(t, c)
}

func hangUpReading(t *testing.T, r *rig, h2 bool) {
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	c := &call{h2: h2, body: completion(model, 20, true), script: script{Events: 20, Hold: midAnswer}}
	res, err := r.open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	hangUp()
	r.tell(t, c, &answer{status: res.StatusCode}, story{status: http.StatusOK, attempts: 1, flags: left(h2), err: "client-gone|aborted"})
	r.told(t, c)
}

// left are the flags with which Envoy logs that a client left.
func left(h2 bool) string {
	if h2 {
		return "DR" // its stream was reset
	}
	return "DC" // its connection ended
}

// told checks that the pods were told that the client left.
func (r *rig) told(t *testing.T, c *call) {
	t.Helper()
	for _, a := range r.fleet.seen(c.id) {
		if !within(patience, a.ended) || !a.gone {
			t.Errorf("%s does not know that the client left", a.pod.name)
		}
	}
}
