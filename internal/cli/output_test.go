package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestParseFormat(t *testing.T) {
	valid := []Format{FormatTable, FormatWide, FormatJSON}
	tests := []struct {
		name, text string
		want       Format
		wantErr    string
		wantHint   string
	}{
		{name: "default is the first", text: "", want: FormatTable},
		{name: "named", text: "json", want: FormatJSON},
		{
			name: "not offered here", text: "yaml",
			wantErr: `unknown output format "yaml" for -o (valid: table, wide, json)`, wantHint: "use -o with one of these",
		},
		{
			name: "wrong case", text: "JSON",
			wantErr: `unknown output format "JSON" for -o (valid: table, wide, json)`, wantHint: "did you mean '-o json'?",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseFormat(test.text, valid...)
			if test.wantErr == "" {
				if err != nil || got != test.want {
					t.Fatalf("ParseFormat(%q) = %q, %v, want %q", test.text, got, err, test.want)
				}
				return
			}
			if err == nil || err.Error() != test.wantErr || Status(err) != ExitUsage {
				t.Fatalf("ParseFormat(%q): %v with status %d, want %q with status 2", test.text, err, Status(err), test.wantErr)
			}
			if e, ok := errors.AsType[*Error](err); !ok || e.Hint != test.wantHint {
				t.Errorf("hint of %v, want %q", err, test.wantHint)
			}
		})
	}
}

type document struct {
	Kind  string   `json:"kind"`
	Score float64  `json:"score"`
	Age   *float64 `json:"age"`
}

func TestDocument(t *testing.T) {
	hostile := document{Kind: "<a>\x1b[31m\u202e\u009b\x7f模\U000e0041", Score: 0.5}
	tests := []struct {
		name   string
		format Format
		want   string
	}{
		{"json", FormatJSON, `{
  "kind": "<a>\u001b[31m\u202e\u009b\u007f模\udb40\udc41",
  "score": 0.5,
  "age": null
}
`},
		{"yaml", FormatYAML, `age: null
kind: <a>\x1b[31m\u202e\u009b\x7f模\U000e0041
score: 0.5
`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, out, _ := Test()
			if err := (Printer{Streams: s, Format: test.format}).Document(hostile); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("Document (-want +got):\n%s", diff)
			}
		})
	}
}

func TestYAMLKeepsNumbersAndLines(t *testing.T) {
	var out bytes.Buffer
	err := WriteYAML(&out, map[string]any{
		"big": uint64(1<<64 - 1), "list": []any{1.5, true, nil, "two\nlines"}, "looksLikeANumber": "0123", "empty": "",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `big: 18446744073709551615
empty: ""
list:
- 1.5
- true
- null
- |-
  two
  lines
looksLikeANumber: "0123"
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("WriteYAML (-want +got):\n%s", diff)
	}
}

func TestLineAndName(t *testing.T) {
	s, out, _ := Test()
	p := Printer{Streams: s, Format: FormatJSONL}
	if err := errors.Join(p.Line(document{Kind: "a"}), p.Line(document{Kind: "b"}), p.Name("id\n1")); err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"a","score":0,"age":null}` + "\n" + `{"kind":"b","score":0,"age":null}` + "\n" + `id\n1` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestJSONRefusesWhatIsNoNumber(t *testing.T) {
	for _, write := range []func(any) error{
		func(v any) error { return WriteJSON(new(bytes.Buffer), v) },
		func(v any) error { return WriteYAML(new(bytes.Buffer), v) },
	} {
		if err := write(document{Score: math.NaN()}); err == nil || !strings.HasPrefix(err.Error(), "encode JSON: ") {
			t.Errorf("NaN: error %v, want one that starts with \"encode JSON: \"", err)
		}
	}
}

func FuzzWriteJSON(f *testing.F) {
	f.Add("a\u202eb\x7f\x9b")
	f.Add("\U000e0041\u2028\\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		if err := WriteJSONLine(&out, text); err != nil {
			t.Fatal(err)
		}
		line := strings.TrimSuffix(out.String(), "\n")
		for _, r := range line {
			if !safeRune(r) {
				t.Fatalf("%q holds %U", line, r)
			}
		}
		var back string
		if err := json.Unmarshal(out.Bytes(), &back); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(text, "\ufffd"); back != want && !strings.Contains(want, "\ufffd") {
			t.Fatalf("%q came back as %q", text, back)
		}
	})
}

// failingWriter is a full disk.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestWriteErrorsAreReturned(t *testing.T) {
	s, _, _ := Test()
	s.Out = failingWriter{}
	p := Printer{Streams: s}
	table := p.Table(Column{Name: "A"})
	table.Row("1")
	for name, err := range map[string]error{
		"document": p.Document(1), "yaml": Printer{Streams: s, Format: FormatYAML}.Document(1),
		"line": p.Line(1), "name": p.Name("x"), "table": table.Flush(),
	} {
		if err == nil {
			t.Errorf("%s: the write error is lost", name)
		}
	}
}

func FuzzWriteYAML(f *testing.F) {
	f.Add("a\u202eb\x7f\x9b: - '\"")
	f.Add("\U000e0041\u2028\\u202e\n\t#\ufeff\uffff")
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		if err := WriteYAML(&out, map[string]any{"key": text, "n": 1}); err != nil {
			t.Fatal(err)
		}
		for _, r := range out.String() {
			if !safeRune(r) && r != '\n' {
				t.Fatalf("%q holds %U", out.String(), r)
			}
		}
		var back struct {
			Key string `json:"key"`
			N   int    `json:"n"`
		}
		want := sanitizeLines(strings.ToValidUTF8(text, "\ufffd"), "\n")
		err := yaml.UnmarshalStrict(out.Bytes(), &back)
		if err != nil || back.N != 1 || back.Key != want && utf8.ValidString(text) {
			t.Fatalf("%q read back: %v, %v", out.String(), back, err)
		}
	})
}
