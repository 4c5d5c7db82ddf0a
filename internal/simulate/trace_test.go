package simulate

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/load"
)

// A text gives the same tokens in one piece and in several.
func TestTextIsCutAnyhow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p []Piece
		for i := range rapid.IntRange(1, 5).Draw(t, "pieces") {
			p = then(p, uint64(i%2), rapid.IntRange(1, 40).Draw(t, "tokens"))
		}
		n := text(p).Len()
		whole := text(p).Append(nil, 0, n)
		if len(whole) != n {
			t.Fatalf("%d tokens of %d", len(whole), n)
		}
		from := rapid.IntRange(0, n-1).Draw(t, "from")
		to := rapid.IntRange(from, n).Draw(t, "to")
		if part := text(p).Append(nil, from, to); !slices.Equal(part, whole[from:to]) {
			t.Fatalf("tokens %d to %d differ from those of the whole", from, to)
		}
	})
}

func TestMooncakeTrace(t *testing.T) {
	tr, err := Read("x.jsonl", strings.NewReader(`
{"timestamp": 5000, "input_length": 1100, "output_length": 7, "hash_ids": [1, 2, 3]}
{"timestamp": 4000, "input_length": 1024, "output_length": 5, "hash_ids": [1, 2]}
{"timestamp": 9000, "input_length": 600, "output_length": 5, "hash_ids": [1, 9]}
`), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []Request{
		{At: 0, Prompt: []Piece{{1, 512}, {2, 1024}}, Output: 5},
		{At: time.Second, Prompt: []Piece{{1, 512}, {2, 1024}, {3, 1100}}, Output: 7},
		{At: 5 * time.Second, Prompt: []Piece{{1, 512}, {9, 600}}, Output: 5},
	}
	for i := range tr.Requests {
		tr.Requests[i].Session, tr.Requests[i].Client, tr.Requests[i].Turn = 0, 0, 0
	}
	if diff := cmp.Diff(want, tr.Requests); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := text(tr.Requests[0].Prompt).Append(nil, 512, 513)[0], load.Token(2, 0); got != want {
		t.Errorf("token 512 is %d, want the first of hash id 2, %d", got, want)
	}
}

// A conversation is a request and those that continue nearly all of it.
func TestSessionsAreGuessed(t *testing.T) {
	s := newSessions()
	var got []int
	for _, ids := range [][]uint64{{1, 2, 3}, {1, 2, 4, 5}, {1, 9, 10}, {1, 2, 4, 6, 7}, {1, 9, 11, 12}, {8}} {
		var q Request
		for _, id := range ids {
			q.Prompt = then(q.Prompt, id, 512)
		}
		s.name(&q)
		got = append(got, int(q.Session)*10+q.Turn)
	}
	if want := []int{11, 12, 21, 13, 22, 31}; !slices.Equal(got, want) {
		t.Errorf("conversations and turns: %v, want %v", got, want)
	}
}

func TestBadTraces(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "x: no request in it"},
		{"no number", `{"timestamp": 1, "input_length": "5"}`, "x: line 1: json: cannot unmarshal"},
		{"no output", "\n" + `{"timestamp": 1, "input_length": 5, "hash_ids": [1]}`, "x: line 2: output_length: must be between 1 and"},
		{"unknown column", "time,inptu,output\n", `x: line 1: neither JSON nor a column that is known: "inptu"; did you mean input?`},
		{"column twice", "time,input,output,input\n", "x: line 1: column input stands there twice"},
		{"missing column", "time,input\n", "x: line 1: no column output; needed are time, input, output"},
		{"bad time", "time,input,output\n1,2,3\nsoon,2,3\n", `x: line 3: time: must be seconds from the start, got "soon"`},
		{"bad tokens", "time,input,output\n1,0,3\n", `x: line 2: input: must be tokens from 1 to`},
		{"ragged", "time,input,output\n1,2\n", "x: record on line 2: wrong number of fields"},
		{"a quote that does not end", "time,input,output\n1,2,\"" + strings.Repeat("x\n", maxLine), "x: a record is longer than"},
		{"for ever", "time,input,output\n0,2,3\n2147483647,2,3\n", "x: it lasts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read("x", strings.NewReader(tt.text), 0)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("Read: %v, want %s…", err, tt.want)
			}
		})
	}
}

func TestCSVTrace(t *testing.T) {
	tr, err := Read("x.csv", strings.NewReader(`# made by hand
time, input, output, group, shared, adapter
0, 100, 10, docs, 64,
1.5, 200, 10, docs, 64, fr
2s, 50, 10, , , fr
`), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := tr.Requests
	if len(r) != 3 || r[1].At != 1500*time.Millisecond || r[2].At != 2*time.Second {
		t.Fatalf("arrivals: %+v", r)
	}
	if r[0].Prompt[0] != r[1].Prompt[0] || r[0].Prompt[0].End != 64 || r[0].Prompt[1].ID == r[1].Prompt[1].ID {
		t.Errorf("a group shares its first 64 tokens alone: %v and %v", r[0].Prompt, r[1].Prompt)
	}
	if r[0].Input() != 100 || r[1].Input() != 200 || r[2].Input() != 50 || len(r[2].Prompt) != 1 {
		t.Errorf("lengths: %d, %d, %d", r[0].Input(), r[1].Input(), r[2].Input())
	}
	if diff := cmp.Diff([]Adapter{{Name: "fr"}}, tr.Adapters); diff != "" {
		t.Errorf("adapters (-want +got):\n%s", diff)
	}
	if _, err := Read("x.csv", strings.NewReader("\ufefftime,input,output\n0,100,1\n"), 0); err != nil {
		t.Errorf("as spreadsheets begin it: %v", err)
	}
	whole, err := Read("x.csv", strings.NewReader("time,input,output,group\n0,100,1,a\n1,300,1,a\n"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := whole.Requests[0].Prompt, whole.Requests[1].Prompt; len(a) != 1 || len(b) != 1 || a[0].ID != b[0].ID {
		t.Errorf("without a column shared they share all: %v and %v", a, b)
	}
}

func TestLimitTakesTheFirst(t *testing.T) {
	tr, err := Read("x", strings.NewReader("time,input,output\n0,1,1\n1,2,1\n2,3,1\n"), 2)
	if err != nil || len(tr.Requests) != 2 || tr.Requests[1].Input() != 2 {
		t.Errorf("%+v, %v", tr, err)
	}
	var c collector
	c.pieces = maxPieces
	if err := c.add(Request{Prompt: []Piece{{1, 1}}}); err == nil || errors.Is(err, errFull) || !strings.Contains(err.Error(), "--limit") {
		t.Errorf("beyond the bound: %v", err)
	}
}

// Records make the prompts that they were of, as far as their chains tell.
func TestTraceOfRecords(t *testing.T) {
	records := new(Records)
	record := func(second int, output *int, tokens int, chain ...string) *explain.Record {
		return &explain.Record{
			DecisionID: strings.Join(chain, "-"), Time: epoch.Add(time.Duration(second) * time.Second),
			Request: explain.Request{PrefixTokens: tokens, BlockSize: 16, Blocks: tokens / 16, Chain: chain},
			Outcome: explain.Outcome{OutputTokens: output},
		}
	}
	for _, rec := range []*explain.Record{
		record(9, nil, 70, "a", "b", "c"), // blocks 1, 2, 4
		record(3, new(12), 64, "a", "b", "d"),
		{Request: explain.Request{NoPrefix: "none"}},
	} {
		if err := records.Add(rec); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := records.Trace("x", 0)
	if err != nil {
		t.Fatal(err)
	}
	a, b := tr.Requests[0], tr.Requests[1]
	if len(tr.Requests) != 2 || records.Skipped != 1 || a.At != 0 || b.At != 6*time.Second {
		t.Fatalf("%d skipped, %+v", records.Skipped, tr.Requests)
	}
	if a.Prompt[1] != b.Prompt[1] || a.Prompt[1].End != 32 || a.Prompt[2].ID == b.Prompt[2].ID {
		t.Errorf("two blocks are shared: %v and %v", a.Prompt, b.Prompt)
	}
	if a.Input() != 64 || b.Input() != 70 {
		t.Errorf("lengths %d and %d, want 64 and 70", a.Input(), b.Input())
	}
	if b.Output != 12 || records.Unknown() != 1 {
		t.Errorf("an answer of unknown length has %d tokens, %d such; want the median, 12, and 1", b.Output, records.Unknown())
	}
}

func TestGenerators(t *testing.T) {
	for _, g := range Generators() {
		t.Run(g.Name, func(t *testing.T) {
			name := GeneratorPrefix + g.Name + ":requests=1500:rate=10"
			tr := generated(t, name, 1)
			if len(tr.Requests) != 1500 || tr.Name != name {
				t.Fatalf("%d requests of %s", len(tr.Requests), tr.Name)
			}
			if rate := tr.Rate(); rate < 5 || rate > 15 {
				t.Errorf("%.2f requests a second, want about 10", rate)
			}
			last := time.Duration(0)
			for i := range tr.Requests {
				q := &tr.Requests[i]
				if q.At < last || q.Input() < 1 || q.Output < 1 || q.Session == 0 || q.Client == 0 || q.Turn < 1 {
					t.Fatalf("request %d: %+v", i, q)
				}
				last = q.At
			}
			if diff := cmp.Diff(tr, generated(t, name, 1)); diff != "" {
				t.Error("the same seed makes another trace")
			}
			if cmp.Equal(tr.Requests, generated(t, name, 2).Requests) {
				t.Error("another seed makes the same trace")
			}
		})
	}
}

func TestBadGenerators(t *testing.T) {
	for text, want := range map[string]string{
		"gen:chats":              `no generator "chats"; there are gen:chat, gen:rag, gen:agents, gen:multi-lora, gen:herd`,
		"gen:chat:turn=3":        `gen:chat:turn=3: no setting "turn": did you mean turns?`,
		"gen:chat:rate=5:rate=6": "gen:chat:rate=5:rate=6: rate is given twice",
		"gen:chat:rate=0":        "gen:chat:rate=0: rate: must be above 0",
		"gen:rag:document=x":     `gen:rag:document=x: document: want a number from 0 to`,
		"gen:chat:turns=0":       "gen:chat:turns=0: turns: must be a whole number above 0, got 0",
		"gen:rag:documents=1.5":  "gen:rag:documents=1.5: documents: must be a whole number above 0, got 1.5",
		"gen:chat:vary=2":        "gen:chat:vary=2: vary: must be a share from 0 to 1, got 2",
		"gen:herd:requests=1e6":  "",
		"gen:chat:requests=9e99": "gen:chat:requests=9e99: requests: want a number",
	} {
		_, err := Generate(text, 1, 5)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestWhatIsATrace(t *testing.T) {
	f, err := os.Open(mooncake)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	begin := make([]byte, 4096)
	if _, err := f.Read(begin); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"Mooncake", string(begin), true},
		{"CSV", "time,input,output\n", true},
		{"Mooncake without lengths", `{"timestamp": 0, "hash_ids": [1]}`, true},
		{"CSV of a spreadsheet", "\ufefftime,input,output\n", true},
		{"CSV with semicolons", "time;input;output\n", true},
		{"CSV with a comment", "# by hand\ntime,input,output\n", true},
		{"a decision", `{"apiVersion":"eppctl/v1","kind":"Decision"}`, false},
		{"a log", "2026-11-30 INFO ready", false},
	} {
		if got := IsTrace([]byte(tt.text)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
