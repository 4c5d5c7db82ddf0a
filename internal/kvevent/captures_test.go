package kvevent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eppctl/eppctl/internal/prefix"
)

// decodedLine is what the program that captured a message made of it: with
// msgspec, another reader than ours.
type decodedLine struct {
	Seq   uint64 `json:"seq"`
	Batch *batch `json:"batch"`
}

type batch struct {
	ts     float64
	events []capturedEvent
	rank   int
}

func (b *batch) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&b.ts, &b.events, &b.rank})
}

type capturedEvent struct {
	Type      string   `json:"type"`
	Hashes    []uint64 `json:"block_hashes"`
	Parent    *uint64  `json:"parent_block_hash"`
	Tokens    []uint32 `json:"token_ids"`
	BlockSize int      `json:"block_size"`
	LoRAID    *int64   `json:"lora_id"`
	LoRAName  string   `json:"lora_name"`
	Group     *int     `json:"group_idx"`
	Kind      string   `json:"kv_cache_spec_kind"`
	Window    int      `json:"kv_cache_spec_sliding_window"`
	Extra     [][]any  `json:"extra_keys"`
}

// UnmarshalJSON reads the simulator's arrays as well.
func (c *capturedEvent) UnmarshalJSON(data []byte) error {
	type object capturedEvent
	if data[0] == '{' {
		return json.Unmarshal(data, (*object)(c))
	}
	var medium *string
	fields := []any{&c.Type, &c.Hashes, &c.Parent, &c.Tokens, &c.BlockSize, &c.LoRAID, &medium, &c.LoRAName, &c.Extra}
	if bytes.HasPrefix(data, []byte(`["BlockRemoved"`)) {
		fields = []any{&c.Type, &c.Hashes, &medium}
	}
	return json.Unmarshal(data, &fields)
}

// event is what we should make of it. The captures have no media.
func (c capturedEvent) event() Event {
	e := Event{
		Hashes: c.Hashes, Tokens: c.Tokens, BlockSize: c.BlockSize, LoRA: c.LoRAName, LoRAID: -1, Group: -1, Window: c.Window,
	}
	switch c.Type {
	case "BlockRemoved":
		e.Kind = Removed
	case "AllBlocksCleared":
		e.Kind = Cleared
	}
	if c.Parent != nil {
		e.Parent, e.HasParent = *c.Parent, *c.Parent != 0
	}
	if c.LoRAID != nil {
		e.LoRAID = *c.LoRAID
	}
	if c.Group != nil {
		e.Group = *c.Group
	}
	if c.Kind == "sliding_window" {
		e.Attention = Sparse
	}
	if len(c.Extra) > 0 {
		for _, item := range c.Extra[0] {
			if item != c.LoRAName {
				e.SaltHash = prefix.SaltHash(item.(string))
			}
		}
	}
	return e
}

// captures is the folder of all captures, of which testdata has a small part.
func captures(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("EPPCTL_CAPTURES")
	if dir == "" {
		t.Skip("EPPCTL_CAPTURES names no folder of captures")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("EPPCTL_CAPTURES: %v", err)
	}
	return dir
}

// rawLine is a message as it came. The first line of a replay is what was sent.
type rawLine struct {
	Sent   []string `json:"sent"`
	Frames []string `json:"frames"`
}

func TestAllCaptures(t *testing.T) {
	d := new(Decoder)
	messages, events := 0, 0
	err := filepath.WalkDir(captures(t), func(path string, _ fs.DirEntry, err error) error {
		stem, ok := strings.CutSuffix(path, ".raw.jsonl")
		if err != nil || !ok || !strings.Contains(path, "events") {
			return err
		}
		raw := slices.DeleteFunc(jsonLines[rawLine](t, path), func(l rawLine) bool { return l.Sent != nil })
		oracle := jsonLines[decodedLine](t, stem+".decoded.jsonl")
		if len(raw) != len(oracle) {
			t.Errorf("%s: %d messages, %d decoded ones", path, len(raw), len(oracle))
			return nil
		}
		for i := range raw {
			place := fmt.Sprintf("%s, message %d", path, i+1)
			frames := unhexAll(t, raw[i].Frames)
			parse := ParseLive
			if strings.Contains(filepath.Base(path), "replay") {
				parse = parseBatch
			}
			m, err := parse(frames)
			if err != nil {
				if oracle[i].Seq == endSeq {
					continue
				}
				t.Errorf("%s: %v", place, err)
				continue
			}
			if m.Seq != oracle[i].Seq {
				t.Errorf("%s: seq %d, want %d", place, m.Seq, oracle[i].Seq)
			}
			messages++
			events += compare(t, d, place, m.Payload, oracle[i].Batch)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if events == 0 {
		t.Error("no captures of events in the folder")
	}
	t.Logf("%d messages, %d events", messages, events)
}

// parseBatch is ParseReplay for replies that have a batch.
func parseBatch(frames [][]byte) (Message, error) {
	m, end, err := ParseReplay(frames)
	if end {
		err = io.EOF
	}
	return m, err
}

// compare decodes a payload and compares it with what another reader made of it.
func compare(t *testing.T, d *Decoder, place string, payload []byte, want *batch) int {
	t.Helper()
	got, err := d.Decode(payload)
	if err != nil {
		t.Errorf("%s: %v", place, err)
		return 0
	}
	wantBatch := &Batch{Rank: want.rank}
	for _, c := range want.events {
		wantBatch.Events = append(wantBatch.Events, c.event())
	}
	opts := cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Batch{}, "At")}
	if diff := cmp.Diff(wantBatch, got, opts); diff != "" {
		t.Errorf("%s (-msgspec +ours):\n%s", place, diff)
	}
	const resolution = time.Microsecond // of a float64 in these years
	at := time.UnixMicro(int64(want.ts * 1e6))
	if d := got.At.Sub(at).Abs(); d > resolution {
		t.Errorf("%s: at %v, want %v", place, got.At, at)
	}
	return len(got.Events)
}

// The simulator's capture is for readers: frames in hex, and what Python prints
// of the payload.
func TestAllSimulatorCaptures(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(captures(t), "simulator-kv-events.txt"))
	if err != nil {
		t.Skip(err)
	}
	python := strings.NewReplacer("'", `"`, "None", "null")
	messages := regexp.MustCompile(`(?m)^frame\[2\].* hex=([0-9a-f]+)\ndecoded payload: (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(messages) < 18 {
		t.Errorf("%d messages, want 18 or more", len(messages))
	}
	d := new(Decoder)
	for i, m := range messages {
		var want batch
		if err := json.Unmarshal([]byte(python.Replace(m[2])), &want); err != nil {
			t.Fatal(err)
		}
		compare(t, d, fmt.Sprintf("simulator, message %d", i+1), unhex(t, m[1]), &want)
	}
}
