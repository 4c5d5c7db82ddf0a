package kvevent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/internal/prefix"
)

// A step is what was asked of a real engine, what it answered and what it
// published; see testdata/README.md.
type step struct {
	Run    string     `json:"run"`
	Step   string     `json:"step"`
	Model  string     `json:"model"`
	Salt   string     `json:"salt"`
	Prompt []uint32   `json:"prompt"`
	Cached int        `json:"cached"`
	Hashes []uint64   `json:"hashes"`
	Sent   []string   `json:"sent"`
	Frames [][]string `json:"frames"`
}

func (s step) name() string { return s.Run + "/" + s.Step }

// jsonLines reads the file's lines.
func jsonLines[T any](t testing.TB, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []T
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%s:%d: %v", path, len(all)+1, err)
		}
		all = append(all, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func unhexAll(t testing.TB, frames []string) [][]byte {
	t.Helper()
	var all [][]byte
	for _, f := range frames {
		all = append(all, unhex(t, f))
	}
	return all
}

// tell describes messages in words: events one by one, runs of equal ones once.
func tell(seq uint64, b *Batch) []string {
	lines := []string{fmt.Sprintf("seq %d rank %d", seq, b.Rank)}
	repeated := 1
	for _, e := range b.Events {
		line := e.Kind.String()
		if e.Kind != Cleared {
			line += fmt.Sprintf(" %d %v group %d", len(e.Hashes), e.Tier, e.Group)
		}
		if e.Kind == Stored {
			line += fmt.Sprintf(" tokens %d of %d", len(e.Tokens), e.BlockSize)
			if e.HasParent {
				line += " child"
			}
			if e.Attention == Sparse {
				line += fmt.Sprintf(" window %d", e.Window)
			}
			if e.LoRAID >= 0 {
				line += fmt.Sprintf(" lora %d", e.LoRAID)
			}
		}
		last := len(lines) - 1
		switch {
		case lines[last] == line || repeated > 1 && lines[last] == fmt.Sprintf("%s, %d times", line, repeated):
			repeated++
			lines[last] = fmt.Sprintf("%s, %d times", line, repeated)
		default:
			repeated = 1
			lines = append(lines, line)
		}
	}
	return lines
}

// What each step shows is a fact that a naive consumer gets wrong.
var told = map[string][]string{
	// The reset before it is told with the next request.
	"default/02-first": {"seq 193 rank 0", "cleared", "stored 3 gpu group 0 tokens 48 of 16"},
	// 20 tokens asked, 35 generated: those fill blocks too.
	"default/06-decode-fills-blocks": {
		"seq 195 rank 0", "stored 1 gpu group 0 tokens 16 of 16",
		"seq 196 rank 0", "stored 1 gpu group 0 tokens 16 of 16 child",
		"seq 197 rank 0", "stored 1 gpu group 0 tokens 16 of 16 child",
	},
	// An exact multiple is announced again, its last block alone.
	"default/07-exact-multiple-first":  {"seq 198 rank 0", "stored 3 gpu group 0 tokens 48 of 16"},
	"default/08-exact-multiple-repeat": {"seq 199 rank 0", "stored 1 gpu group 0 tokens 16 of 16 child"},
	"default/10-cache-salt-tenant-a":   {"seq 201 rank 0", "stored 3 gpu group 0 tokens 48 of 16"},
	"default/12-cache-salt-tenant-b":   {"seq 202 rank 0", "stored 3 gpu group 0 tokens 48 of 16"},
	// A key more.
	"default/13-session-id-header": {"seq 203 rank 0", "stored 2 gpu group 0 tokens 32 of 16"},
	"default/22-prompt-37-tokens":  {"seq 215 rank 0", "stored 2 gpu group 0 tokens 32 of 16"},
	// Evictions come before what needed the room.
	"default/26-evict-2": {"seq 220 rank 0", "removed 1 gpu group 0, 78 times", "stored 112 gpu group 0 tokens 1792 of 16"},

	"lora/02-lora-first":                 {"seq 1 rank 0", "stored 3 gpu group 0 tokens 48 of 16 lora 1"},
	"lora/04-lora-with-salt":             {"seq 2 rank 0", "stored 3 gpu group 0 tokens 48 of 16 lora 1"},
	"lora/05-second-adapter-same-prompt": {"seq 3 rank 0", "stored 3 gpu group 0 tokens 48 of 16 lora 2"},

	// Each rank counts for itself.
	"dp2/02-pinned-rank-0": {"seq 1 rank 0", "stored 3 gpu group 0 tokens 48 of 16"},
	"dp2/03-pinned-rank-1": {"seq 1 rank 1", "stored 3 gpu group 0 tokens 48 of 16"},

	// Group 3 is the one of full attention; the others name fewer blocks, or none.
	"hybrid/07-exact-multiple-first": {
		"seq 5 rank 0", "stored 2 gpu group 0 tokens 48 of 16 window 64", "stored 2 gpu group 1 tokens 48 of 16 window 64",
		"stored 2 gpu group 2 tokens 48 of 16 window 64", "stored 3 gpu group 3 tokens 48 of 16",
	},
	"hybrid/20-chat-turn-2": {
		"seq 20 rank 0", "stored 3 gpu group 0 tokens 48 of 16 child window 64", "stored 3 gpu group 1 tokens 48 of 16 child window 64",
		"stored 3 gpu group 2 tokens 48 of 16 child window 64", "stored 3 gpu group 3 tokens 48 of 16 child",
		"seq 21 rank 0", "stored 0 gpu group 0 tokens 16 of 16 child window 64", "stored 0 gpu group 1 tokens 16 of 16 child window 64",
		"stored 0 gpu group 2 tokens 16 of 16 child window 64", "stored 1 gpu group 3 tokens 16 of 16 child",
	},
	"cbor-seed0/22-prompt-37-tokens": {"seq 23 rank 0", "stored 2 gpu group 0 tokens 32 of 16"},
}

func TestCapturedSteps(t *testing.T) {
	steps := jsonLines[step](t, filepath.Join("testdata", "vllm.jsonl"))
	if len(steps) != len(told) {
		t.Errorf("%d steps, want %d", len(steps), len(told))
	}
	d := new(Decoder)
	for _, s := range steps {
		t.Run(s.name(), func(t *testing.T) {
			var lines []string
			var events []Event
			for _, frames := range s.Frames {
				m, err := ParseLive(unhexAll(t, frames))
				if err != nil {
					t.Fatal(err)
				}
				b, err := d.Decode(m.Payload)
				if err != nil {
					t.Fatal(err)
				}
				if b.Skipped > 0 {
					t.Errorf("seq %d: %d events skipped: %v", m.Seq, b.Skipped, b.Reason)
				}
				if b.At.Year() != 2026 {
					t.Errorf("seq %d is of %v", m.Seq, b.At)
				}
				lines = append(lines, tell(m.Seq, b)...)
				for _, e := range b.Events {
					e.Hashes, e.Tokens = slices.Clone(e.Hashes), slices.Clone(e.Tokens)
					events = append(events, e)
				}
			}
			if diff := cmp.Diff(told[s.name()], lines); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			checkAnswer(t, s, events)
		})
	}
}

// checkAnswer compares a step's events with the engine's answer: in every
// group, they go on where the cached tokens ended.
func checkAnswer(t *testing.T, s step, events []Event) {
	t.Helper()
	adapter := s.Model
	if adapter == "tiny" {
		adapter = ""
	}
	tokens := map[int][]uint32{}
	last := map[int]uint64{}
	for i, e := range events {
		if e.Kind != Stored {
			continue
		}
		first := tokens[e.Group] == nil
		tokens[e.Group] = append(tokens[e.Group], e.Tokens...)
		if e.LoRA != adapter {
			t.Errorf("event %d: adapter %q, want %q", i, e.LoRA, adapter)
		}
		if first && s.Cached == 0 {
			if want := prefix.SaltHash(s.Salt); e.SaltHash != want {
				t.Errorf("event %d: salt hash %q, want %q", i, e.SaltHash, want)
			}
			if e.HasParent {
				t.Errorf("event %d: the first block has a parent", i)
			}
		}
		if !first && (!e.HasParent || e.Attention == Full && e.Parent != last[e.Group]) {
			t.Errorf("event %d: parent %d, want %d", i, e.Parent, last[e.Group])
		}
		if e.Complete() {
			last[e.Group] = e.Hashes[len(e.Hashes)-1]
		}
		if s.Hashes != nil {
			if diff := cmp.Diff(s.Hashes, e.Hashes); diff != "" {
				t.Errorf("hashes (-the engine's functions +got):\n%s", diff)
			}
		}
	}
	if len(tokens) == 0 {
		t.Error("nothing was stored")
	}
	for group, got := range tokens {
		want := s.Prompt[s.Cached:]
		n := min(len(got), len(want)) // the rest was generated, or is no full block
		if len(want)-n >= 16 || !slices.Equal(want[:n], got[:n]) {
			t.Errorf("group %d: %d tokens that are not the prompt's behind its first %d", group, len(got), s.Cached)
		}
	}
}

// One block was there three times, and is removed three times.
func TestCapturedDuplicates(t *testing.T) {
	for _, s := range jsonLines[step](t, filepath.Join("testdata", "vllm.jsonl")) {
		if s.name() != "default/26-evict-2" {
			continue
		}
		removals := map[uint64]int{}
		for _, e := range decode(t, unhex(t, s.Frames[0][2])).Events {
			if e.Kind == Removed {
				removals[e.Hashes[0]]++
			}
		}
		most := 0
		for _, n := range removals {
			most = max(most, n)
		}
		if most != 3 {
			t.Errorf("a block is removed %d times at most, want 3", most)
		}
		return
	}
	t.Error("no such step")
}

func TestCapturedSimulator(t *testing.T) {
	want := []string{
		"seq 1 rank 0", "stored 2 gpu group -1 tokens 32 of 16",
		"seq 2 rank 0", "stored 2 gpu group -1 tokens 32 of 16 child",
		"seq 3 rank 0", "stored 2 gpu group -1 tokens 32 of 16 lora 1",
		"seq 4 rank 0", "removed 1 gpu group -1",
	}
	got := map[string][]string{}
	for _, s := range jsonLines[step](t, filepath.Join("testdata", "simulator.jsonl")) {
		m, err := ParseLive(unhexAll(t, s.Frames[0]))
		if err != nil {
			t.Fatal(err)
		}
		b := decode(t, m.Payload)
		got[s.Run] = append(got[s.Run], tell(m.Seq, b)...)
		if e := b.Events[0]; e.LoRAID == 1 && e.LoRA != "lora1" {
			t.Errorf("%s: adapter %q", s.Run, e.LoRA)
		}
	}
	if diff := cmp.Diff(map[string][]string{"array": want, "map": want}, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
