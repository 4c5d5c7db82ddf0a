package load

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

// chat is the body of a conversation's request.
type chat struct {
	Model         string          `json:"model"`
	Messages      []message       `json:"messages"`
	MaxTokens     int             `json:"max_tokens"`
	Stream        bool            `json:"stream"`
	StreamOptions map[string]bool `json:"stream_options"`
}

func next(t *testing.T, c *Conversations) (*Arrival, chat) {
	t.Helper()
	a, err := c.Next()
	if err != nil {
		t.Fatal(err)
	}
	var body chat
	if err := json.Unmarshal(a.Body, &body); err != nil {
		t.Fatal(err)
	}
	return a, body
}

func TestEachTurnBuildsOnAllBeforeIt(t *testing.T) {
	c := NewConversations(5, 1)
	c.model = "m"
	a, first := next(t, c)
	before := first.Messages
	if a.Path != "/v1/chat/completions" || first.Model != "m" || first.MaxTokens != answerTokens || len(before) != 2 || before[0].Role != "system" {
		t.Fatalf("the first turn: %s %+v", a.Path, first)
	}
	for turn := 1; turn < maxTurns; turn++ {
		c.answered(a.conversation, "fine", true)
		if len(c.idle) != 1 {
			t.Fatalf("turn %d: %d conversations wait, want 1", turn, len(c.idle))
		}
		for len(c.idle) == 1 { // until it is its turn, and not a new one's
			a, _ = next(t, c)
		}
		var body chat
		if err := json.Unmarshal(a.Body, &body); err != nil {
			t.Fatal(err)
		}
		n := len(before)
		if !slices.Equal(body.Messages[:n], before) || body.Messages[n] != (message{"assistant", "fine"}) || body.Messages[n+1].Role != "user" {
			t.Errorf("turn %d does not build on the one before: %v", turn, body.Messages[n:])
		}
		if streamed := turn%2 == 1; body.Stream != streamed || body.StreamOptions["include_usage"] != streamed {
			t.Errorf("turn %d: stream %v with %v", turn, body.Stream, body.StreamOptions)
		}
		before = body.Messages
	}
	if c.answered(a.conversation, "bye", true); len(c.idle) != 0 {
		t.Error("a conversation goes on after its last turn")
	}
	a, _ = next(t, c)
	if c.answered(a.conversation, "", false); len(c.idle) != 0 {
		t.Error("a conversation goes on after a failure")
	}
}

// As many conversations end as are opened, however long the traffic lasts.
func TestPopulationIsStable(t *testing.T) {
	const requests, inFlight = 20_000, 10
	c := NewConversations(100, 1)
	var open []*Arrival
	opened, most := 0, 0
	for n := range requests {
		a, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if n >= requests/2 && a.conversation.turns == 0 {
			opened++
		}
		if open = append(open, a); len(open) > inFlight {
			c.answered(open[0].conversation, "fine", true)
			open = open[1:]
		}
		most = max(most, len(c.idle))
	}
	if most > enoughIdle+inFlight+1 || len(c.idle) < enoughIdle/2 {
		t.Errorf("%d conversations wait at the end, %d at most; want about %d", len(c.idle), most, enoughIdle)
	}
	if share := float64(opened) / (requests / 2); share < .11 || share > .14 {
		t.Errorf("%.3f of the requests open a conversation, want 1 in %d", share, maxTurns)
	}
}

func TestBurstOfAnswersDropsTheOldest(t *testing.T) {
	c := NewConversations(100, 1)
	var burst []*conversation
	for range 4 * maxIdle {
		a, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		burst = append(burst, a.conversation)
	}
	for _, conv := range burst {
		c.answered(conv, "fine", true)
	}
	if want := burst[len(burst)-maxIdle:]; !slices.Equal(c.idle, want) {
		t.Errorf("%d conversations wait, want the %d that were answered last", len(c.idle), maxIdle)
	}
}

func TestSameSeedSameTraffic(t *testing.T) {
	a, b, other := NewConversations(5, 1), NewConversations(5, 1), NewConversations(5, 2)
	differs := false
	for range 50 {
		x, _ := next(t, a)
		y, _ := next(t, b)
		z, _ := next(t, other)
		if x.At != y.At || string(x.Body) != string(y.Body) {
			t.Fatal("the same seed gives other requests")
		}
		differs = differs || x.At != z.At
		a.answered(x.conversation, "fine", true)
		b.answered(y.conversation, "fine", true)
	}
	if !differs {
		t.Error("another seed gives the same traffic")
	}
}

func TestRateOfArrivals(t *testing.T) {
	const n, rate = 2000, 50
	c := NewConversations(rate, 3)
	var last time.Duration
	for range n {
		a, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if a.At < last {
			t.Fatalf("an arrival at %v after one at %v", a.At, last)
		}
		last = a.At
		c.answered(a.conversation, "fine", true)
	}
	if got := n / last.Seconds(); got < .9*rate || got > 1.1*rate {
		t.Errorf("%.1f requests a second, want %d", got, rate)
	}
	slow := NewConversations(1e-300, 1)
	if a, err := slow.Next(); err != nil || a.At != longestGap {
		t.Errorf("at no rate to speak of: %v, %v; want %v", a.At, err, longestGap)
	}
}
