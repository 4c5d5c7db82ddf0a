package kvindex

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/eppctl/eppctl/internal/kvevent"
)

// step is a line of testdata/vllm.jsonl.
type step struct {
	Run, Step     string
	Adapter, Salt string
	Cached        int
	Prompt        []uint32
	Messages      []struct {
		Seq     uint64
		Payload string
	}
}

func readSteps(t *testing.T) map[string][]step {
	t.Helper()
	file, err := os.Open("testdata/vllm.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	runs := map[string][]step{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s step
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		runs[s.Run] = append(runs[s.Run], s)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return runs
}

// What the events of a real engine tell is what it then finds in its cache, to
// the token: through copies, full reports, evictions, salts and adapters.
func TestRealEngine(t *testing.T) {
	upperBounds := map[string]int{"hybrid/20-chat-turn-2": 64} // of which it finds less
	for run, steps := range readSteps(t) {
		t.Run(run, func(t *testing.T) {
			f := newFixture(t, nil)
			compared := 0
			for _, s := range steps {
				if s.Prompt != nil {
					c := chain{adapter: s.Adapter, salt: s.Salt, tokens: s.Prompt}
					want, bound := upperBounds[run+"/"+s.Step]
					if !bound {
						want = s.Cached
					}
					compared++
					if got := min(f.matched(c), (len(c.tokens)-1)/ours) * ours; got != want {
						t.Errorf("%s: %d tokens are predicted, want %d", s.Step, got, want)
					}
				}
				f.applyStep(s)
			}
			st := f.Stats()
			if compared < 5 || st.Blocks == 0 || st.UnknownParents+st.UnknownRemovals+st.Unfit+st.Conflicts > 0 {
				t.Errorf("after %d comparisons: %+v", compared, st)
			}
			if st.Hybrid != (run == "hybrid") || st.Degraded != Whole {
				t.Errorf("Hybrid, Degraded = %v, %q", st.Hybrid, st.Degraded)
			}
		})
	}
}

func (f *fixture) applyStep(s step) {
	f.tb.Helper()
	var d kvevent.Decoder
	for _, m := range s.Messages {
		payload, err := hex.DecodeString(m.Payload)
		if err != nil {
			f.tb.Fatal(err)
		}
		batch, err := d.Decode(payload)
		if err != nil {
			f.tb.Fatal(err)
		}
		if out := f.Apply(m.Seq, batch); out != (Outcome{}) {
			f.tb.Errorf("%s: Apply(%d) = %+v", s.Step, m.Seq, out)
		}
	}
}
