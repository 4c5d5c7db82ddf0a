package answer

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// renamed passes an answer on in pieces of the given size.
func renamed(f Format, in string, piece int) string {
	r := NewRenamer(f, "org/base", `the "alias"`)
	var out []byte
	for p := range slices.Chunk([]byte(in), piece) {
		out = r.Append(out, bytes.Clone(p))
	}
	return string(r.Flush(out))
}

func TestRename(t *testing.T) {
	to := `"the \"alias\""`
	for _, tt := range []struct {
		name, in, want string
		format         Format
	}{
		{"JSON", `{"id":1,"model":"org/base","x":"org/base"}`, `{"id":1,"model":` + to + `,"x":"org/base"}`, JSON},
		{"with white space", "{ \"model\" : \"org/base\" }\n", "{ \"model\" : " + to + " }\n", JSON},
		{"another name", `{"model":"org/basement"}`, `{"model":"org/basement"}`, JSON},
		{"a shorter name", `{"model":"org"}`, `{"model":"org"}`, JSON},
		{"not a string", `{"model":{"model":"org/base"},"a":[{"model":"org/base"}]}`, `{"model":{"model":"org/base"},"a":[{"model":"org/base"}]}`, JSON},
		{"in a text", `{"text":"\"model\":\"org/base\""}`, `{"text":"\"model\":\"org/base\""}`, JSON},
		{"cut off", `{"model":"org/b`, `{"model":"org/b`, JSON},
		{"twice", `{"model":"org/base","model":"org/base"}`, `{"model":` + to + `,"model":` + to + `}`, JSON},
		{
			"stream", "data: {\"model\":\"org/base\"}\n\ndata: {\"model\":\"org/b\n\ndata: {\"a\":1,\"model\":\"org/base\"}\n\ndata: [DONE]\n\n",
			"data: {\"model\":" + to + "}\n\ndata: {\"model\":\"org/b\n\ndata: {\"a\":1,\"model\":" + to + "}\n\ndata: [DONE]\n\n", EventStream,
		},
		{"opaque", `{"model":"org/base"}`, `{"model":"org/base"}`, Opaque},
		{"empty", "", "", JSON},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for piece := 1; piece <= max(1, len(tt.in)); piece++ {
				if got := renamed(tt.format, tt.in, piece); got != tt.want {
					t.Errorf("in pieces of %d: %q, want %q", piece, got, tt.want)
				}
			}
		})
	}
}

func TestRenamePassesOnAtOnce(t *testing.T) {
	r := NewRenamer(JSON, "org/base", "prod")
	for _, step := range []struct{ in, want string }{
		{`{"id":1,"mod`, `{"id":1,"mod`},
		{`el": "or`, `el": `},
		{`g/ba`, ``},
		{`sement","x":`, `"org/basement","x":`},
		{`2,"model":"org/base"`, `2,"model":"prod"`},
		{`,"model":"org`, `,"model":`},
	} {
		if got := string(r.Append([]byte("before "), []byte(step.in))); got != "before "+step.want {
			t.Errorf("after %s: %q, want %q behind what was there", step.in, got, step.want)
		}
	}
	for _, want := range []string{`"org`, ``} {
		if got := string(r.Flush(nil)); got != want {
			t.Errorf("at the end %q, want %q", got, want)
		}
	}
}

func FuzzRename(f *testing.F) {
	f.Add(false, `{"model":"org/base"}`, 1)
	f.Add(true, "data: {\"model\":\"org/base\"}\n\ndata: {\"model\":\"or\r\n", 3)
	f.Fuzz(func(t *testing.T, sse bool, in string, piece int) {
		format := JSON
		if sse {
			format = EventStream
		}
		whole := renamed(format, in, max(1, len(in)))
		if cut := renamed(format, in, 1+max(0, piece%64)); cut != whole {
			t.Fatalf("in pieces %q, whole %q", cut, whole)
		}
		if !strings.Contains(in, `"org/base"`) && whole != in {
			t.Fatalf("%q became %q", in, whole)
		}
	})
}
