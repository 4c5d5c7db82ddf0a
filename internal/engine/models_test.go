package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseModels(t *testing.T) {
	tests := []struct {
		name, body string
		want       []Model
		err        string
	}{
		{"base model", fixture(t, "vllm-models.json"), []Model{{ID: "tiny", Root: "./tiny", MaxLen: 2048}}, ""},
		{"adapters", fixture(t, "vllm-models-lora.json"), []Model{
			{ID: "tiny", Root: "./tiny", MaxLen: 2048},
			{ID: "tiny-lora", Root: "./tiny-lora", Parent: "tiny"},
			{ID: "second", Root: "./tiny-lora", Parent: "tiny"},
		}, ""},
		{"none", `{"object":"list","data":[]}`, []Model{}, ""},
		{"lengths of no use", `{"data":[{"id":"a","max_model_len":-1},{"id":"b","max_model_len":1e300}]}`, []Model{{ID: "a"}, {ID: "b"}}, ""},
		{"no list", `{}`, nil, `list of models has no "data"`},
		{"no id", `{"data":[{"root":"x"}]}`, nil, "list of models has no id in entry 0"},
		{"HTML", `<html>`, nil, "list of models is malformed: invalid character '<' looking for beginning of value"},
		{"too long", `{"data":[` + strings.Repeat(" ", 1<<20) + `]}`, nil, "read list of models: longer than 1048576 bytes"},
		{"too many", `{"data":[` + strings.Repeat(`{"id":"a"},`, 5000) + `{"id":"a"}]}`, nil, "list of models has more than 4096 entries"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseModels(strings.NewReader(tt.body))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("models (-want +got):\n%s", diff)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || err.Error() != tt.err) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

func FuzzParseModels(f *testing.F) {
	f.Add(fixture(f, "vllm-models-lora.json"))
	f.Fuzz(func(t *testing.T, body string) {
		models, err := ParseModels(strings.NewReader(body))
		if err != nil && models != nil {
			t.Errorf("models %v beside an error", models)
		}
		for _, m := range models {
			if m.ID == "" || m.MaxLen < 0 {
				t.Errorf("model %+v", m)
			}
		}
	})
}
