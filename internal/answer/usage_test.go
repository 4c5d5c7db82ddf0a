package answer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// usageOf reads an answer in pieces of the given size; 0 = in one.
func usageOf(f Format, answer string, piece int) Usage {
	u := NewUsageReader(f)
	if piece == 0 {
		piece = max(1, len(answer))
	}
	for len(answer) > 0 {
		n := min(piece, len(answer))
		u.Watch([]byte(answer[:n]))
		answer = answer[n:]
	}
	return u.Found()
}

// case X5
func TestUsage(t *testing.T) {
	full := `{"prompt_tokens":12,"total_tokens":15,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}`
	known := Usage{Prompt: 12, Cached: 8, Output: 3}
	for _, tt := range []struct {
		name   string
		format Format
		answer string
		want   Usage
	}{
		{"JSON", JSON, `{"id":"x","choices":[{"text":"a"}],"usage":` + full + `}`, known},
		{"JSON over several lines", JSON, "{\r\n  \"choices\": [],\n  \"usage\" :\n" + full + "\n}\n", known},
		{"the text quotes a usage", JSON, `{"choices":[{"text":"\"usage\":{\"prompt_tokens\":1},"}],"usage":` + full + `}`, known},
		{"only the text quotes one", JSON, `{"choices":[{"text":"x\\"},{"usage":{"prompt_tokens":1}}]}`, UnknownUsage},
		{"a key that ends with usage", JSON, `{"my_usage":{"prompt_tokens":1},"usage2":{"prompt_tokens":2},"usag":{"prompt_tokens":2}}`, UnknownUsage},
		{"usage as a value", JSON, `{"a":"usage","b":{"prompt_tokens":1}}`, UnknownUsage},
		{"a list of objects", JSON, `[{"usage":` + full + `}]`, UnknownUsage},
		{"twice: the last one counts", JSON, `{"usage":{"prompt_tokens":1},"usage":` + full + `}`, known},
		{"null", JSON, `{"usage":null}`, UnknownUsage},
		{"a string", JSON, `{"usage":"12"}`, UnknownUsage},
		{"a list", JSON, `{"usage":[12]}`, UnknownUsage},
		{"a number", JSON, `{"usage":12}`, UnknownUsage},
		{"counts of the wrong type", JSON, `{"usage":{"prompt_tokens":"12","completion_tokens":3,"prompt_tokens_details":[8]}}`, Usage{-1, -1, 3}},
		{"counts that are none", JSON, `{"usage":{"prompt_tokens":-1,"completion_tokens":1.5,"prompt_tokens_details":{"cached_tokens":1e400}}}`, UnknownUsage},
		{"another letter case", JSON, `{"usage":{"Prompt_Tokens":12}}`, UnknownUsage},
		{"details are null", JSON, `{"usage":{"prompt_tokens":12,"completion_tokens":0,"prompt_tokens_details":null}}`, Usage{12, -1, 0}},
		{"more cached than there were", JSON, `{"usage":{"prompt_tokens":12,"prompt_tokens_details":{"cached_tokens":13}}}`, Usage{12, -1, -1}},
		{"cut off", JSON, `{"usage":` + full, UnknownUsage},
		{"not JSON", JSON, `<html>"usage":{"prompt_tokens":1}</html>`, UnknownUsage},
		{"too long", JSON, `{"usage":{"x":"` + strings.Repeat("x", maxUsage) + `","prompt_tokens":1}}`, UnknownUsage},
		{"opaque", Opaque, `{"usage":` + full + `}`, UnknownUsage},

		{"stream", EventStream, "data: {\"choices\":[{}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":" + full + "}\n\ndata: [DONE]\n\n", known},
		{"stream without a space or a last line end", EventStream, `data:{"usage":` + full + "}", known},
		{"stream with CRLF", EventStream, "data: {}\r\n\r\ndata: {\"usage\":" + full + "}\r\n\r\ndata: [DONE]\r\n\r\n", known},
		{"stream with CR", EventStream, "data: {}\r\rdata: {\"usage\":" + full + "}\r\r", known},
		{"stream with comments, names and ids", EventStream, ": {\"usage\":{\"prompt_tokens\":1}}\nevent: x\nid: 1\ndata: {\"usage\":" + full + "}\n\n", known},
		{"usage with every chunk", EventStream, "data: {\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":1}}\n\ndata: {\"usage\":" + full + "}\n\n", known},
		{"a useless one at the end", EventStream, "data: {\"usage\":" + full + "}\n\ndata: {\"usage\":null}\n\ndata: {\"usage\":{}}\n\n", known},
		{"another field", EventStream, "datum: {\"usage\":" + full + "}\n\nxdata: {\"usage\":" + full + "}\n\n", UnknownUsage},
		{"a line that breaks off", EventStream, "data: {\"usage\":" + full + "\n\ndata: {\"a\":1}\n\n", UnknownUsage},
		{"data over two lines", EventStream, "data: {\"choices\":[\ndata: {\"usage\":{\"prompt_tokens\":1}}\ndata: ]}\n\n", UnknownUsage},
		{"a string that breaks off", EventStream, "data: {\"a\":\"\ndata: {}\n\ndata: {\"usage\":" + full + "}\n\n", known},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for piece := range min(len(tt.answer), 300) {
				if got := usageOf(tt.format, tt.answer, piece); got != tt.want {
					t.Fatalf("in pieces of %d: %+v, want %+v", piece, got, tt.want)
				}
			}
		})
	}
}

// object draws a JSON object that is deep, odd and legal.
func object(t *rapid.T, depth int, label string) map[string]any {
	keys := rapid.SampledFrom([]string{"usage", "model", "a", "usag", "usage ", `us"age`, "prompt_tokens", "completion_tokens", "ü"})
	out := map[string]any{}
	for i := range rapid.IntRange(0, 4).Draw(t, label) {
		key := keys.Draw(t, fmt.Sprint(label, i))
		switch kind := rapid.IntRange(0, 5).Draw(t, key); {
		case kind == 0 && depth > 0:
			out[key] = object(t, depth-1, label+key)
		case kind == 1 && depth > 0:
			out[key] = []any{object(t, depth-1, label+key), "usage"}
		case kind == 2:
			out[key] = rapid.SampledFrom([]string{"", "x", `"`, `\`, `","usage":{"prompt_tokens":1}`, "{", "]"}).Draw(t, "s")
		case kind == 3:
			out[key] = nil
		default:
			out[key] = rapid.IntRange(-1, 1000).Draw(t, "n")
		}
	}
	return out
}

// The scanner finds what a JSON decoder finds, however the answer is cut.
func TestUsageAsADecoderReadsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := object(t, 3, "o")
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		want := UnknownUsage
		if u, ok := doc["usage"]; ok {
			part, _ := json.Marshal(u)
			want = parseUsage(part)
		}
		piece := rapid.IntRange(0, 9).Draw(t, "piece")
		if got := usageOf(JSON, string(text), piece); got != want {
			t.Fatalf("%s: %+v, want %+v", text, got, want)
		}
		if got := usageOf(EventStream, "data: "+string(text)+"\n\n", piece); got != want {
			t.Fatalf("as an event, %s: %+v, want %+v", text, got, want)
		}
	})
}

func FuzzUsage(f *testing.F) {
	f.Add(true, "data: {\"usage\":{\"prompt_tokens\":1}}\n\n", 3)
	f.Add(false, `{"a":"\"","usage":{"prompt_tokens":1,"completion_tokens":2}}`, 1)
	f.Add(true, "data: {\"a\":\"\\\r\ndata:{\"usage\":{}}", 2)
	f.Fuzz(func(t *testing.T, sse bool, answer string, piece int) {
		format := JSON
		if sse {
			format = EventStream
		}
		whole, cut := usageOf(format, answer, 0), usageOf(format, answer, 1+max(0, piece%64))
		if whole != cut {
			t.Fatalf("whole %+v, in pieces %+v", whole, cut)
		}
		var doc map[string]json.RawMessage
		if !sse && json.Unmarshal([]byte(answer), &doc) == nil && !strings.Contains(answer, `\u`) {
			if want := parseUsage(doc["usage"]); whole != want {
				t.Fatalf("%+v, a decoder finds %+v", whole, want)
			}
		}
	})
}

// FuzzUsageObject compares with encoding/json, which decodes escaped keys: those
// are not ours.
func FuzzUsageObject(f *testing.F) {
	f.Add(`{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}`)
	f.Add(` { "prompt_tokens" : 1 , "a" : [ { "prompt_tokens" : 2 } , "}" ] , "prompt_tokens" : 5 } `)
	f.Add(`{"prompt_tokens_details":{"cached_tokens":4,"x":{"cached_tokens":9}},"prompt_tokens_details":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, `\`) {
			return
		}
		want := UnknownUsage
		var doc, details map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &doc) == nil {
			want.Prompt, want.Output = tokens(doc["prompt_tokens"]), tokens(doc["completion_tokens"])
			if json.Unmarshal(doc["prompt_tokens_details"], &details) == nil {
				want.Cached = tokens(details["cached_tokens"])
			}
			if want.Prompt >= 0 && want.Cached > want.Prompt {
				want.Cached = -1
			}
		}
		if got := parseUsage([]byte(text)); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	})
}
