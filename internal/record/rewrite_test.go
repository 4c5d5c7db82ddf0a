package record_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/record"
)

func TestRecordKeepsHowTheNameWasRewritten(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, c := range map[string]struct {
		rewrite record.Rewrite
		want    *explain.Rewrite
	}{
		"none": {},
		"one of two targets": {
			record.Rewrite{To: "billing-v3", By: "InferenceModel prod/chat", Criticality: "Sheddable", Weight: 30, Sum: 100, Targets: 2},
			&explain.Rewrite{To: "billing-v3", By: "InferenceModel prod/chat", Criticality: "Sheddable", Weight: 30, WeightSum: 100, Targets: 2},
		},
		"the name stays": {record.Rewrite{To: "m", By: "InferenceModel prod/m"}, &explain.Rewrite{To: "m", By: "InferenceModel prod/m"}},
		"long names": {
			record.Rewrite{To: long, By: long, Criticality: long, Weight: 1_000_000, Sum: 1 << 40, Targets: 1 << 20},
			&explain.Rewrite{To: long[:255], By: long[:255], Criticality: long[:32], Weight: 1_000_000, WeightSum: 1 << 40, Targets: 1<<16 - 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := fronted(addresses(2), 1, 1) // parts before and behind it
			e.Rewrite = c.rewrite
			ring := record.NewRing(record.RingConfig{})
			rec, _ := ring.Load(mustAppend(t, ring, e))
			if diff := cmp.Diff(c.want, rec.Request.Rewrite); diff != "" {
				t.Errorf("rewrite (-want +got):\n%s", diff)
			}
			if rec.Gateway == nil || len(rec.Gateway.Subset.Addresses) != 2 || len(rec.Candidates) != 5 {
				t.Errorf("what is beside it: %+v", rec.Gateway)
			}
			var line bytes.Buffer
			if err := record.Encode(&line, rec); err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(line.String(), `"rewrite"`); has != (c.want != nil) {
				t.Errorf("the line says of a rewrite: %v", has)
			}
			back := new(explain.Record)
			if err := json.Unmarshal(line.Bytes(), back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(rec, back); diff != "" {
				t.Errorf("read back (-written +read):\n%s", diff)
			}
			if r, _, _ := explain.Replay(back); !r.Identical {
				t.Errorf("it replays otherwise: %s", r.Difference)
			}
			if back.Request.Rewrite != nil {
				back.Request.Rewrite.Weight++
				if r, _, _ := explain.Replay(back); r.Identical {
					t.Error("a changed rewrite is not seen")
				}
			}
		})
	}
}
