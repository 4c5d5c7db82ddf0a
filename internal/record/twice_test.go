package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

// The same log replayed twice with the same weights: the same picks, and reports
// that are equal byte for byte.
//
// case P6
func TestLogReplayedTwice(t *testing.T) {
	ring := record.NewRing(record.RingConfig{Bytes: 8 << 20})
	rapid.Check(t, func(t *rapid.T) {
		var log bytes.Buffer
		want := []int{}
		for range rapid.IntRange(1, 8).Draw(t, "decisions") {
			e := drawEntry(t)
			rec, ok := ring.Load(ring.Append(e))
			if !ok {
				t.Fatal("a decision was not recorded")
			}
			if err := record.Encode(&log, rec); err != nil {
				t.Fatal(err)
			}
			want = append(want, e.Decision.Winner)
		}
		picks, reports := replayed(t, bytes.NewReader(log.Bytes()))
		again, reportsAgain := replayed(t, bytes.NewReader(log.Bytes()))
		if !slices.Equal(picks, want) || !slices.Equal(again, want) {
			t.Fatalf("replayed picks %v and %v, those of the log are %v", picks, again, want)
		}
		if !bytes.Equal(reports, reportsAgain) {
			t.Fatalf("the second reports differ:\n%s\nfrom the first:\n%s", reportsAgain, reports)
		}
	})
}

// replayed takes all decisions of a log again: what the scores pick, and the reports
// as JSON and as text.
func replayed(t *rapid.T, log io.Reader) (picks []int, reports []byte) {
	var out bytes.Buffer
	in := record.NewReader(log)
	for {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			return picks, out.Bytes()
		}
		if err != nil {
			t.Fatal(err)
		}
		verdict, _, d := explain.Replay(rec)
		if !verdict.Identical || !verdict.Sealed {
			t.Fatalf("replay of %s: %+v", rec.DecisionID, verdict)
		}
		picks = append(picks, d.Winner)
		report := explain.Explain(rec, explain.Options{Flips: 3})
		err = errors.Join(json.NewEncoder(&out).Encode(report), report.Text(&out, explain.TextOptions{Width: 100, Wide: true}))
		if err != nil {
			t.Fatal(err)
		}
	}
}
