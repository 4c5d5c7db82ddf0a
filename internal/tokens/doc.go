// Package tokens finds the ids that an engine makes of a prompt, by asking an
// engine: only with those do the blocks of a router mean the same as the blocks
// in a KV cache.
//
// The one idea: exact, or said not to be. Ids are [FromEngine] or [FromRender]
// only when an engine gave them for this very wording; everything else bears
// another name in the record. And routing never waits for more than the timeout:
// whoever does not answer in time is not asked again before a probe, for which
// nobody waits, has been answered.
//
//	t, err := tokens.New(tokens.Config{Servers: servers})
//	…
//	prompts := t.Tokens(ctx, &tokens.Query{Base: base, Model: model, Body: body, Request: parsed})
//
// # What is asked
//
// A /v1/…/render route when its URL is configured, which is exact by construction;
// else /tokenize of any ready server of the model, with everything of the body
// that takes part in its rendering. What /tokenize has no member for goes the way
// of the chat template's arguments, or is left out, and the ids are then called
// approximate although an engine gave them: reasoning_effort, documents,
// tool_choice with tools, response_format, reasoning in messages, and chats of
// gpt-oss models, which engines serve by rules of their own. Prompts with images,
// with embeddings or to be truncated are not asked for at all. An engine may
// differ from its own /tokenize in ways that nobody sees from outside (older vLLM
// with --default-chat-template-kwargs): the engine's count of prompt tokens tells,
// see [Tokeniser.Told].
//
// # What is not asked twice
//
// Answers are kept by a hash of the wording that is keyed with a secret of this
// process; the cache holds ids and no text. Equal prompts at one time are asked
// for once.
//
// A text prompt that begins as earlier ones is asked for only from a cut behind
// the common part on, and the ids are called [Joined]. The cut is at an end of
// line before a letter, where the tokenisers of today's models start anew. It is
// used only after two prompts with the same beginning have shown that the ids
// before it are the same in both, and that the rest by itself has the ids that it
// has in the whole. That is not so for tokenisers that put a mark before every
// text (Llama 2), and is then not done. What it cannot exclude is a tokeniser that
// looks back over ends of lines for some texts and not for others, hence the name.
//
// Chats are always asked for whole. A template may render earlier messages in
// another way when others follow (it drops old reasoning, moves the tools), and
// engines offer no way to render only the end.
//
// When nobody answers, the longest beginning that is known (a shorter
// conversation, a cut) keeps its exact ids and the approximate ones follow: the
// blocks of the earlier turns are still found. Such ids are called approximate.
//
// It does not tokenise itself, and knows nothing of pods but what the caller says.
package tokens
