package request

import (
	"bytes"
	"fmt"
	"math"
)

// prompts fills the token ids.
func (f *fields) prompts(r *Request, limits Limits) error {
	if r.Kind == ChatCompletions {
		r.TokensFrom = FromText
		tokens, err := f.chat()
		r.PromptTokens = [][]uint32{tokens}
		return err
	}
	text := f[fPrompt]
	if text == nil && f[fPromptEmbeds] != nil {
		r.NoPrefix = "prompt_embeds has no token ids"
		return nil
	}
	if text == nil {
		return invalid("prompt", "is missing")
	}
	switch text[0] {
	case '"':
		r.TokensFrom = FromText
		r.PromptTokens = [][]uint32{textIDs(text)}
		return nil
	case '[':
		return promptList(r, text, limits)
	}
	return invalid("prompt", "must be a string, a list of strings, a list of token ids, or a list of such lists")
}

// promptList reads the three kinds of lists; the first element says which.
func promptList(r *Request, text []byte, limits Limits) (err error) {
	s := scanner{b: text, i: 1, checked: true}
	s.space()
	switch c := s.peek(); {
	case c == ']':
		return invalid("prompt", "is an empty list; give at least one prompt")
	case c == '"':
		r.TokensFrom = FromText
		r.PromptTokens, err = eachPrompt(text, limits, func(place string, value []byte) ([]uint32, error) {
			if value[0] != '"' {
				return nil, invalid(place, "must be a string, as the first prompt is")
			}
			return textIDs(value), nil
		})
	case c == '[':
		r.TokensFrom = FromIDs
		r.PromptTokens, err = eachPrompt(text, limits, func(place string, value []byte) ([]uint32, error) {
			if value[0] != '[' {
				return nil, invalid(place, "must be a list of token ids, as the first prompt is")
			}
			return listedIDs(place, value)
		})
	default:
		r.TokensFrom = FromIDs
		var ids []uint32
		ids, err = listedIDs("prompt", text)
		r.PromptTokens = [][]uint32{ids}
	}
	return err
}

// eachPrompt reads every element; place names it in errors.
func eachPrompt(text []byte, limits Limits, read func(place string, value []byte) ([]uint32, error)) ([][]uint32, error) {
	var prompts [][]uint32
	err := elements(text, func(i int, value []byte) error {
		if i >= limits.Prompts {
			return invalid("prompt", "has more than %d prompts", limits.Prompts)
		}
		ids, err := read(fmt.Sprintf("prompt[%d]", i), value)
		prompts = append(prompts, ids)
		return err
	})
	return prompts, err
}

func textIDs(text []byte) []uint32 {
	plain := unquote(text)
	return appendText(make([]uint32, 0, (len(plain)+pieceBytes-1)/pieceBytes), plain)
}

// listedIDs reads a checked list of token ids. Prompts of 100 KB are common,
// so this goes over the digits itself.
func listedIDs(place string, text []byte) ([]uint32, error) {
	ids := make([]uint32, 0, bytes.Count(text, []byte{','})+1)
	for i := 1; ; i++ { // behind the bracket, and then behind each comma
		for text[i] <= ' ' {
			i++
		}
		if text[i] == ']' {
			return nil, invalid(place, "is an empty list; give at least one token id")
		}
		var id uint64
		from := i
		for ; text[i] >= '0' && text[i] <= '9' && id <= math.MaxUint32; i++ {
			id = id*10 + uint64(text[i]-'0')
		}
		digits := i > from
		for text[i] <= ' ' {
			i++
		}
		if !digits || id > math.MaxUint32 || (text[i] != ',' && text[i] != ']') {
			return nil, invalid(fmt.Sprintf("%s[%d]", place, len(ids)), "must be a token id (0 to %d)", uint32(math.MaxUint32))
		}
		ids = append(ids, uint32(id))
		if text[i] == ']' {
			return ids, nil
		}
	}
}

// A messageField is a member of a chat message that templates render.
type messageField uint8

// From mName on, the order is the order of rendering behind the content.
const (
	mRole messageField = iota
	mContent
	mName
	mReasoningContent
	mReasoning
	mRefusal
	mFunctionCall
	mToolCalls
	mToolCallID
	messageFieldCount
)

var messageFieldNames = map[string]messageField{
	"role":              mRole,
	"content":           mContent,
	"name":              mName,
	"reasoning_content": mReasoningContent,
	"reasoning":         mReasoning,
	"refusal":           mRefusal,
	"function_call":     mFunctionCall,
	"tool_calls":        mToolCalls,
	"tool_call_id":      mToolCallID,
}

// chat renders the conversation as tokens.go describes it.
func (f *fields) chat() ([]uint32, error) {
	text := f[fMessages]
	if text == nil {
		return nil, invalid("messages", "is missing")
	}
	if text[0] != '[' {
		return nil, invalid("messages", "must be a list")
	}
	generate, err := truthOr("add_generation_prompt", f[fAddGenerationPrompt], true)
	if err != nil {
		return nil, err
	}
	goOn, err := truth("continue_final_message", f[fContinueFinalMessage])
	if err != nil {
		return nil, err
	}
	dst := make([]uint32, 0, len(text)/pieceBytes+16)
	for i := range configFields {
		if v := f[i]; v != nil && !emptyValue(v) {
			dst = appendSection(dst, idConfigBase+uint32(i), v)
		}
	}
	count := 0
	err = elements(text, func(i int, value []byte) (err error) {
		count++
		dst, err = appendMessage(dst, fmt.Sprintf("messages[%d]", i), value)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case count == 0:
		return nil, invalid("messages", "is an empty list; give at least one message")
	case goOn:
		return dst[:len(dst)-1], nil // the last message is open: its end is the model's to write
	case generate:
		dst = append(dst, idRoleBase+assistant)
	}
	return dst, nil
}

func truthOr(name string, text []byte, absent bool) (bool, error) {
	if text == nil {
		return absent, nil
	}
	return truth(name, text)
}

// emptyValue: "", [], {} and false add nothing to what a template renders.
func emptyValue(text []byte) bool {
	switch text[0] {
	case '"', '[', '{':
		return len(bytes.TrimSpace(text[1:len(text)-1])) == 0
	}
	return text[0] == 'f'
}

func appendMessage(dst []uint32, place string, text []byte) ([]uint32, error) {
	if text[0] != '{' {
		return nil, invalid(place, "must be an object")
	}
	var m [messageFieldCount][]byte
	err := members(text, func(key, value []byte) error {
		if i, ok := lookup(messageFieldNames, key); ok {
			m[i] = nonNull(value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if m[mRole] == nil || m[mRole][0] != '"' {
		return nil, invalid(place+".role", "must be a string")
	}
	dst = appendRole(dst, unquote(m[mRole]))
	if dst, err = appendContent(dst, place+".content", m[mContent]); err != nil {
		return nil, err
	}
	if calls := m[mToolCalls]; calls != nil && calls[0] != '[' {
		return nil, invalid(place+".tool_calls", "must be a list")
	}
	for i := mName; i < messageFieldCount; i++ {
		if m[i] != nil && !emptyValue(m[i]) {
			dst = appendSection(dst, idFieldBase+uint32(i), m[i])
		}
	}
	return append(dst, EndOfMessage), nil
}

func appendContent(dst []uint32, place string, text []byte) ([]uint32, error) {
	if text == nil {
		return dst, nil
	}
	switch text[0] {
	case '"':
		return appendText(dst, unquote(text)), nil
	case '[':
	default:
		return nil, invalid(place, "must be a string, a list of parts, or null")
	}
	err := elements(text, func(i int, value []byte) (err error) {
		if i > 0 {
			dst = append(dst, idPart)
		}
		dst, err = appendPart(dst, fmt.Sprintf("%s[%d]", place, i), value)
		return err
	})
	return dst, err
}

// appendPart renders one part of a content list: a text, or a placeholder for
// an image, a sound, a file.
func appendPart(dst []uint32, place string, text []byte) ([]uint32, error) {
	switch text[0] {
	case '"':
		return appendText(dst, unquote(text)), nil
	case '{':
	default:
		return nil, invalid(place, "must be a part: an object with a type")
	}
	var kind, words []byte
	err := members(text, func(key, value []byte) error {
		switch {
		case keyIs(key, "type"):
			kind = nonNull(value)
		case keyIs(key, "text"):
			words = nonNull(value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !textPart(kind, words) {
		return appendMedia(dst, compact(make([]byte, 0, len(text)), text)), nil
	}
	if words == nil || words[0] != '"' {
		return nil, invalid(place+".text", "must be a string")
	}
	return appendText(dst, unquote(words)), nil
}

func textPart(kind, words []byte) bool {
	switch string(kind) {
	case `"text"`, `"input_text"`, `"output_text"`:
		return true
	case "":
		return words != nil // engines infer the type
	}
	return false
}
