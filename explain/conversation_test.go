package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/score"
)

// turn is a request of a conversation: the n-th block of its prompt is named by
// the conversation and n, and by the topic up to where conversations are alike.
func turn(conversation string, at time.Duration, blocks, common int, pods ...score.PodState) *explain.Record {
	rec := scene{req: score.InferenceRequest{Blocks: blocks}, weights: score.Default(), pods: pods}.record()
	rec.Time = rec.Time.Add(at)
	rec.RequestID = fmt.Sprintf("%s-%ds", conversation, int(at.Seconds()))
	rec.DecisionID = rec.RequestID
	rec.Outcome.CachedTokens, rec.Outcome.PredictedCached = new(0), new(0)
	for i := range explain.ChainLength(blocks, 16) {
		id := fmt.Sprint("topic-", explain.ChainBlock(i, blocks, 16))
		if explain.ChainBlock(i, blocks, 16) > common {
			id += conversation
		}
		rec.Request.Chain = append(rec.Request.Chain, id)
	}
	rec.Seal()
	return rec
}

func idsOf(c *explain.Conversation) (ids []string) {
	for _, t := range c.Turns {
		ids = append(ids, t.RequestID)
	}
	return ids
}

func TestConversation(t *testing.T) {
	const minute = time.Minute
	records := []*explain.Record{
		turn("chat", 0, 40, 20, pod("a", 0, .1, 0), pod("b", 0, .2, 0)),
		turn("chat", 1*minute, 70, 20, pod("a", 40, .1, 0), pod("b", 20, .2, 0)),
		turn("chat", 2*minute, 100, 20, pod("a", 70, .1, 20), pod("b", 20, .2, 0)), // a's queue is full
		turn("chat", 3*minute, 130, 20, pod("a", 70, .1, 0), pod("b", 100, .2, 0)),
		turn("chat", 4*minute, 300, 20, pod("a", 70, .1, 0), pod("b", 130, .2, 0)),
		// another one, which only begins alike: it is on both pods, by 20 blocks
		turn("other", 30*time.Second, 38, 20, pod("a", 20, .5, 0), pod("b", 0, .2, 0)),
		turn("other", 90*time.Second, 60, 20, pod("a", 20, .5, 0), pod("b", 38, .2, 0)),
	}
	// the end of a long prompt may be another in the next turn
	edited := turn("edited", 5*minute, 400, 20, pod("a", 70, .1, 0), pod("b", 290, .2, 0))
	copy(edited.Request.Chain, records[4].Request.Chain[:len(records[4].Request.Chain)-2])
	edited.Seal()
	records = append(records, edited)
	asked := records[2]
	alike := explain.NewAlike(asked)
	for _, rec := range records {
		alike.See(rec)
	}
	c := explain.Converse(asked, alike.Records())
	if diff := cmp.Diff([]string{"chat-0s", "chat-60s", "chat-120s", "chat-180s", "chat-240s", "edited-300s"}, idsOf(c)); diff != "" {
		t.Fatalf("turns (-want +got):\n%s", diff)
	}
	if c.Moves != 1 || !c.Turns[2].Moved || c.Turns[2].Cause != explain.CauseOwnerQueueFull || !c.Turns[2].Asked {
		t.Errorf("the third turn is %+v", c.Turns[2])
	}
	if first, last := c.Turns[0], c.Turns[3]; first.Cause != explain.CauseNoReuse || last.Moved || last.SharedBlocks != 96 {
		t.Errorf("the first turn is %+v, the last one %+v", first, last)
	}
	r := explain.Explain(asked, explain.Options{Earlier: alike.Records()})
	r.Conversation = c
	goldenDocuments(t, "conversation", r)
	for _, columns := range []int{80, 120} {
		var b strings.Builder
		if err := r.Text(&b, explain.TextOptions{Width: columns}); err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, fmt.Sprintf("testdata/conversation.%d.txt", columns), b.String())
	}
}

func TestConversationOfOne(t *testing.T) {
	rec := turn("chat", 0, 0, 0, pod("a", 0, .1, 0))
	alike := explain.NewAlike(rec)
	alike.See(rec)
	if c := explain.Converse(rec, alike.Records()); !slices.Equal(idsOf(c), []string{"chat-0s"}) || alike.FirstBlock() != "" {
		t.Errorf("turns %v", idsOf(c))
	}
}

// However many decisions begin alike, those with most in common are kept.
func TestAlikeIsBounded(t *testing.T) {
	asked := turn("chat", time.Hour, 200, 200, pod("a", 0, .1, 0))
	alike := explain.NewAlike(asked)
	for i := range 1000 {
		alike.See(turn("chat", time.Duration(i)*time.Second, 10+i%150, 200, pod("a", 0, .1, 0)))
	}
	kept := alike.Records()
	if len(kept) != explain.MaxAlike || kept[0].Request.Blocks < 128 {
		t.Errorf("%d kept, the first has %d blocks", len(kept), kept[0].Request.Blocks)
	}
}
