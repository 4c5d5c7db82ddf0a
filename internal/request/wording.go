package request

import (
	"bytes"
	"strconv"
)

// Wording is a prompt as its client worded it: the members of a body from which
// an engine makes token ids. They are JSON text as written, and slices of the
// body.
type Wording struct {
	Kind Kind
	// Texts are the prompts of a completion, each a string with its quotes.
	Texts [][]byte
	// Messages are those of a chat, each an object.
	Messages [][]byte
	// Members are all others that take part in the rendering, by [WordingMember].
	Members [memberCount][]byte
	// Doubt is why an engine's /tokenize may give other ids than those that the
	// engine serves the request with; "" when there is none. A …/render route has
	// no doubts.
	Doubt string
	// Mute is why asking makes no sense; "" when it does.
	Mute string
}

// WordingMember is a member of a body that takes part in the rendering of a prompt.
type WordingMember uint8

// The members, with the names that they have in a body.
const (
	AddSpecialTokens WordingMember = iota
	AddGenerationPrompt
	ContinueFinalMessage
	ChatTemplate
	Tools
	ChatTemplateKwargs
	ReasoningEffort
	Documents
	ToolChoice
	ResponseFormat
	memberCount

	wMessages = iota - 1
	wPrompt
	wPromptEmbeds
	wTruncate
	wTruncationSide
	wordCount
)

var wordNames = [wordCount]string{
	"add_special_tokens", "add_generation_prompt", "continue_final_message", "chat_template", "tools",
	"chat_template_kwargs", "reasoning_effort", "documents", "tool_choice", "response_format",
	"messages", "prompt", "prompt_embeds", "truncate_prompt_tokens", "truncation_side",
}

var wordings = func() map[string]WordingMember {
	m := make(map[string]WordingMember, wordCount)
	for i, name := range wordNames {
		m[name] = WordingMember(i)
	}
	return m
}()

// String is the member's name.
func (m WordingMember) String() string { return wordNames[m] }

// ReadWording finds the wording in a body that [Parse] has read without an error;
// nil when the body has none.
func ReadWording(kind Kind, body []byte) *Wording {
	var f [wordCount][]byte
	err := topLevel(body, func(key, value []byte) error {
		if i, ok := lookup(wordings, key); ok {
			f[i] = nonNull(value)
		}
		return nil
	})
	if err != nil {
		return nil
	}
	w := &Wording{Kind: kind}
	copy(w.Members[:], f[:memberCount])
	switch {
	case f[wTruncate] != nil, f[wTruncationSide] != nil:
		w.Mute = "the prompt is to be cut"
	case kind == ChatCompletions && f[wMessages] != nil:
		return w.chat(f[wMessages])
	case kind == Completions && f[wPrompt] != nil && f[wPromptEmbeds] != nil:
		w.Mute = "part of the prompt is embeddings"
	case kind == Completions && f[wPrompt] != nil:
		return w.texts(f[wPrompt])
	default:
		return nil
	}
	return w
}

// texts takes in the prompts of a completion.
func (w *Wording) texts(prompt []byte) *Wording {
	if prompt[0] == '"' {
		w.Texts = [][]byte{prompt}
		return w
	}
	if prompt[0] != '[' {
		return nil
	}
	strings := true
	err := elements(prompt, func(_ int, value []byte) error {
		strings = strings && value[0] == '"'
		w.Texts = append(w.Texts, value)
		return nil
	})
	if err != nil || !strings {
		return nil
	}
	return w
}

// chat takes in a conversation, and what /tokenize of an engine has no member for,
// or treats in another way than the inference route.
func (w *Wording) chat(messages []byte) *Wording {
	err := elements(messages, func(_ int, value []byte) error {
		w.Messages = append(w.Messages, value)
		return w.message(value)
	})
	if err != nil {
		return nil
	}
	choice := w.Members[ToolChoice]
	switch {
	case w.Members[ReasoningEffort] != nil: // whether it turns thinking on depends on the version
		w.Doubt = ReasoningEffort.String()
	case w.Members[Documents] != nil:
		w.Doubt = Documents.String()
	case w.Members[Tools] != nil && choice != nil && string(choice) != `"auto"`: // "none" may leave the tools out
		w.Doubt = ToolChoice.String()
	case w.Members[ResponseFormat] != nil:
		w.Doubt = ResponseFormat.String()
	}
	return w
}

// message looks for what makes a message's ids doubtful, or useless: those of an
// image stand for any image.
func (w *Wording) message(text []byte) error {
	if text[0] != '{' {
		return nil
	}
	return members(text, func(key, value []byte) error {
		switch {
		case nonNull(value) == nil:
		case keyIs(key, "reasoning"), keyIs(key, "reasoning_content"):
			w.Doubt = "reasoning"
		case keyIs(key, "content") && value[0] == '[':
			return elements(value, func(_ int, part []byte) error {
				if !isText(part) {
					w.Mute = "the prompt has parts that are not text"
				}
				return nil
			})
		}
		return nil
	})
}

func isText(part []byte) bool {
	if part[0] != '{' {
		return part[0] == '"'
	}
	var kind, words []byte
	err := members(part, func(key, value []byte) error {
		switch {
		case keyIs(key, "type"):
			kind = nonNull(value)
		case keyIs(key, "text"):
			words = nonNull(value)
		}
		return nil
	})
	return err == nil && textPart(kind, words)
}

// Tokenized reads an engine's answer to /tokenize. Errors quote nothing of it.
func Tokenized(answer []byte) ([]uint32, error) {
	var ids, count []byte
	err := topLevel(answer, func(key, value []byte) error {
		switch {
		case keyIs(key, "tokens"):
			ids = value
		case keyIs(key, "count"):
			count = value
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	tokens, err := answeredIDs("tokens", ids)
	if err == nil && string(count) != strconv.Itoa(len(tokens)) {
		err = invalid("count", "is not the number of tokens")
	}
	return tokens, err
}

// Rendered reads an engine's answer to a …/render route: one object for a chat, a
// list of them for completions, one a prompt. Errors quote nothing of it.
func Rendered(answer []byte) (prompts [][]uint32, err error) {
	one := func(_ int, object []byte) error {
		if object[0] != '{' {
			return invalid("answer", "must be an object or a list of objects")
		}
		var ids []byte
		_ = members(object, func(key, value []byte) error {
			if keyIs(key, "token_ids") {
				ids = value
			}
			return nil
		})
		tokens, err := answeredIDs("token_ids", ids)
		prompts = append(prompts, tokens)
		return err
	}
	s := scanner{b: answer}
	whole, err := s.value(0)
	if err == nil {
		err = s.end()
	}
	switch {
	case err != nil:
	case whole[0] == '[':
		err = elements(whole, one)
	default:
		err = one(0, whole)
	}
	return prompts, err
}

func answeredIDs(place string, text []byte) ([]uint32, error) {
	if len(text) == 0 || text[0] != '[' {
		return nil, invalid(place, "must be a list of token ids")
	}
	if len(bytes.TrimSpace(text[1:len(text)-1])) == 0 {
		return []uint32{}, nil // of an empty text
	}
	return listedIDs(place, text)
}

// SafeCuts are offsets into a string as written (with its quotes) where most
// tokenisers start anew: between the end of a line and a letter. The first is at
// least first bytes in, and each is a quarter further in than the one before it.
// They depend on nothing behind them, so texts that begin alike have the same
// cuts there.
func SafeCuts(text []byte, first int) (cuts []int) {
	for i, next := 1, first; ; {
		slash := bytes.IndexByte(text[i:], '\\')
		if slash < 0 {
			return cuts
		}
		i += slash + 2 // behind the escape; the rest of \u0041 is plain
		if text[i-1] == 'n' && i >= next && isLetter(text[i]) {
			cuts = append(cuts, i)
			next = i + i/4
		}
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
