package request

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func chatIDs(t *testing.T, rest string) []uint32 {
	t.Helper()
	return mustParse(t, chatPath, `{"model":"m",`+rest+`}`).Tokens
}

// shared is how many ids two prompts have in common from their start.
func shared(a, b []uint32) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// case B3
func TestImageEndsTheSharedPrefix(t *testing.T) {
	ids := func(image string) []uint32 {
		return chatIDs(t, `"messages":[{"role":"user","content":[{"type":"text","text":"look at this: "},
			{"type":"image_url","image_url":{"url":"`+image+`"}},{"type":"text","text":"what is it?"}]}]`)
	}
	a, b := ids("data:a"), ids("data:b")
	if want := 1 + 4 + 1; shared(a, b) != want { // header, 15 bytes of text, separator
		t.Errorf("%d ids shared, want %d: the text before the image", shared(a, b), want)
	}
	if len(a) != len(b) || !slices.Equal(a, ids("data:a")) {
		t.Error("the ids of an image are not a function of its content alone")
	}
	if i := shared(a, b); slices.Equal(a[i:i+8], b[i:i+8]) || a[i] == b[i] {
		t.Error("two images have the same placeholder")
	}
}

// case B4
func TestToolCallArguments(t *testing.T) {
	ids := func(arguments string) []uint32 {
		return chatIDs(t, `"messages":[{"role":"user","content":"weather?"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"`+arguments+`"}}]},
			{"role":"tool","tool_call_id":"c1","content":"rain"}]`)
	}
	a, b := ids(`{\"city\":\"Rome\"}`), ids(`{\"city\":\"Oslo\"}`)
	if n := shared(a, b); n < 10 || n >= len(a)-4 {
		t.Errorf("%d of %d ids shared, want those before the arguments and none after", n, len(a))
	}
}

// case B5
func TestToolsAndTemplateOptionsComeFirst(t *testing.T) {
	const messages = `"messages":[{"role":"system","content":"be nice"},{"role":"user","content":"hi"}]`
	plain := chatIDs(t, messages)
	tools := chatIDs(t, messages+`,"tools":[{"type":"function","function":{"name":"get"}}]`)
	if shared(plain, tools) != 0 {
		t.Error("the same messages with and without tools share ids")
	}
	spaced := chatIDs(t, `"tools": [ {"type": "function", "function":{"name":"get"} } ],`+messages)
	if !slices.Equal(tools, spaced) {
		t.Error("white space in tools or the order of fields changes the ids")
	}
	on := chatIDs(t, messages+`,"chat_template_kwargs":{"enable_thinking":true}`)
	off := chatIDs(t, messages+`,"chat_template_kwargs":{"enable_thinking":false}`)
	if n := shared(on, off); n == 0 || n > 6 {
		t.Errorf("one flag of the template differs and %d ids are shared, want those up to the flag", n)
	}
	for _, nothing := range []string{`"tools":[]`, `"tools":null`, `"chat_template_kwargs":{}`, `"documents":[ ]`} {
		if !slices.Equal(plain, chatIDs(t, messages+","+nothing)) {
			t.Errorf("%s changes the ids", nothing)
		}
	}
}

func TestContentForms(t *testing.T) {
	text := chatIDs(t, `"messages":[{"role":"user","content":"hello"}]`)
	part := chatIDs(t, `"messages":[{"role":"user","content":[{"text":"hello","type":"text"}]}]`)
	bare := chatIDs(t, `"messages":[{"role":"user","content":["hello"]}]`)
	untyped := chatIDs(t, `"messages":[{"role":"user","content":[{"text":"hello"}]}]`)
	if !slices.Equal(text, part) || !slices.Equal(text, bare) || !slices.Equal(text, untyped) {
		t.Error("a text has other ids as the only part of a list")
	}
	for name, other := range map[string]string{
		"two parts":      `[{"role":"user","content":["hel","lo"]}]`,
		"another role":   `[{"role":"system","content":"hello"}]`,
		"unusual role":   `[{"role":"critic","content":"hello"}]`,
		"a name":         `[{"role":"user","name":"bob","content":"hello"}]`,
		"reasoning":      `[{"role":"user","content":"hello","reasoning_content":"hm"}]`,
		"a tool call id": `[{"role":"user","content":"hello","tool_call_id":"1"}]`,
	} {
		if slices.Equal(text, chatIDs(t, `"messages":`+other)) {
			t.Errorf("%s: same ids as without", name)
		}
	}
}

func TestOpenEnds(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"well"}]`
	whole := chatIDs(t, messages)
	closed := chatIDs(t, messages+`,"add_generation_prompt":false`)
	open := chatIDs(t, messages+`,"add_generation_prompt":false,"continue_final_message":true`)
	if !slices.Equal(closed, whole[:len(whole)-1]) || closed[len(closed)-1] != EndOfMessage {
		t.Errorf("without a generation prompt: %x of %x", closed, whole)
	}
	if !slices.Equal(open, closed[:len(closed)-1]) {
		t.Errorf("an open last message: %x of %x", open, closed)
	}
}

var (
	roles    = rapid.SampledFrom([]string{"system", "user", "assistant", "tool", "developer", "critic", ""})
	messages = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) map[string]string {
		return map[string]string{"role": roles.Draw(t, "role"), "content": rapid.String().Draw(t, "content")}
	}), 1, 6)
	words = rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("abcdefgh ")), 4, 4, 4), 0, 40)
)

func drawnIDs(t *rapid.T, messages []map[string]string) []uint32 {
	body, err := json.Marshal(map[string]any{"model": "m", "messages": messages})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse(chatPath, body, Limits{})
	if err != nil {
		t.Fatalf("Parse(%s): %v", body, err)
	}
	return r.Tokens
}

// What an engine has in its cache after an answer is what the next turn asks for.
func TestResentAnswerHasTheSameIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turn := messages.Draw(t, "messages")
		answer := words.Draw(t, "answer")
		first := drawnIDs(t, turn)
		for _, word := range answer {
			first = AppendPieces(first, word)
		}
		first = append(first, EndOfMessage)
		next := append(turn,
			map[string]string{"role": "assistant", "content": strings.Join(answer, "")},
			map[string]string{"role": "user", "content": rapid.String().Draw(t, "question")})
		if second := drawnIDs(t, next); shared(first, second) != len(first) {
			t.Fatalf("%d of %d ids found again", shared(first, second), len(first))
		}
	})
}

// Different conversations have different ids: nothing in a text can imitate a boundary.
func TestIDsTellConversationsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := messages.Draw(t, "a"), messages.Draw(t, "b")
		ja, _ := json.Marshal(a)
		jb, _ := json.Marshal(b)
		if same := slices.Equal(drawnIDs(t, a), drawnIDs(t, b)); same != (string(ja) == string(jb)) {
			t.Fatalf("ids equal: %v, for %s and %s", same, ja, jb)
		}
	})
}

func TestPiecesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		ids := AppendPieces(nil, text)
		if got := string(AppendText(nil, ids...)); got != text {
			t.Fatalf("%q came back as %q", text, got)
		}
		if slices.ContainsFunc(ids, EndsAnswer) {
			t.Fatalf("%q has an id that ends an answer", text)
		}
	})
	if got := AppendText(nil, EndOfMessage, idRoleBase, idMediaBase|5); len(got) != 0 {
		t.Errorf("ids that are not text became %q", got)
	}
}
