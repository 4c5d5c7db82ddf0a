package vllm

import (
	"slices"
	"time"
)

// State is where a sequence is in its life.
type State uint8

// A sequence waits, runs (perhaps more than once, after a preemption), and ends
// in one of the other two.
const (
	Waiting State = iota
	Running
	Finished
	Aborted
)

// Reason is why a sequence finished.
type Reason string

// The reasons, in the words of the OpenAI API.
const (
	ReasonStop   Reason = "stop"   // the model ended its answer
	ReasonLength Reason = "length" // as many tokens as were asked for
)

// A Sequence is one prompt and its answer. The caller fills the first part and
// reads the rest, between calls of the engine's methods.
type Sequence struct {
	Prompt    []uint32 // kept, not copied
	Text      Text     // of the prompt, in place of Prompt
	Answer    Text     // what the model answers, while it lasts; nil: made up
	Adapter   string   // "" for the base model
	SaltHash  string
	Salt      string // what SaltHash is of; events tell it, as vLLM's do
	MaxTokens int    // of output; 0: until the model ends its answer
	Choice    uint64 // different ones give different answers to one prompt
	// Stream says that every token is wanted, not only the last.
	Stream bool
	// Progress is called when there is something new: a token when Stream, else
	// the end. It must not call the engine. May be nil.
	Progress func()

	State  State
	Reason Reason   // once Finished
	Output []uint32 // grows; the last is the end id after ReasonStop
	// Cached is how many tokens of the prompt were found when it first started.
	Cached int
	// Times on the engine's clock. FirstToken and Ended are 0 until they come.
	Arrived, FirstToken, Ended time.Duration

	root        *Root
	seed        uint64
	prompt      int      // its length
	want        int      // length of the output, the end id included
	hashes      []uint64 // of the whole blocks of prompt and output
	blocks      []int32  // held
	stored      int      // how many of blocks are stored
	computed    int      // tokens whose KV entries exist
	prefill     int      // tokens that are prompt-like: all there were when it (re)started
	scheduled   int      // tokens in the running step
	again       int      // the block that was found and is computed again for its last token; -1: none
	starting    bool     // it starts in the running step
	started     bool     // it has started before
	loadingTime time.Duration
}

func (s *Sequence) length() int { return s.prompt + len(s.Output) }

// appendBlock appends the tokens of block i.
func (s *Sequence) appendBlock(dst []uint32, i int) []uint32 {
	from, to := i*TokensPerBlock, (i+1)*TokensPerBlock
	if from < s.prompt {
		dst = s.Text.Append(dst, from, min(to, s.prompt))
	}
	if to > s.prompt {
		dst = append(dst, s.Output[max(0, from-s.prompt):to-s.prompt]...)
	}
	return dst
}

// parent is the fingerprint in front of block i.
func (s *Sequence) parent(i int) uint64 {
	if i == 0 {
		return s.root.hash
	}
	return s.hashes[i-1]
}

// prepare computes what follows from the prompt alone. It returns the memory that
// the prompt was written to.
func (s *Sequence) prepare(model string, memory []uint32) []uint32 {
	prompt := s.Prompt
	if s.Text == nil {
		s.Text = ids(prompt)
	} else {
		memory = s.Text.Append(memory[:0], 0, s.Text.Len())
		prompt = memory
	}
	s.prompt = len(prompt)
	s.root = newRoot(model, s.Adapter, s.SaltHash)
	s.root.Salt = s.Salt
	s.hashes = appendFingerprints(make([]uint64, 0, len(prompt)/TokensPerBlock+8), s.root.hash, prompt)
	s.seed = mix64(s.parent(len(s.hashes)) + s.Choice*0x9e3779b97f4a7c15)
	for _, id := range prompt[len(s.hashes)*TokensPerBlock:] {
		s.seed = mix64(s.seed ^ uint64(id))
	}
	if s.want = s.MaxTokens; s.want == 0 {
		s.want = naturalShortest + int(s.seed%naturalSpread)
	}
	return memory
}

// Answers that end by themselves have 49 to 80 tokens, their end included.
const (
	naturalShortest = 49
	naturalSpread   = 32
)

// sample appends the next token of the answer. One that is made up is a function
// of the prompt alone: the same prompt gets the same answer on every pod.
func (s *Sequence) sample(vocabulary []uint32, end uint32) {
	n := len(s.Output)
	switch {
	case s.MaxTokens == 0 && n == s.want-1:
		s.Output = append(s.Output, end)
		s.Reason = ReasonStop
	default:
		if s.Answer != nil && n < s.Answer.Len() {
			s.Output = s.Answer.Append(s.Output, n, n+1)
		} else {
			s.Output = append(s.Output, vocabulary[mix64(s.seed+uint64(n))%uint64(len(vocabulary))])
		}
		if len(s.Output) == s.want {
			s.Reason = ReasonLength
		}
	}
	if l := s.length(); l%TokensPerBlock == 0 {
		var tokens [TokensPerBlock]uint32
		s.appendBlock(tokens[:0], len(s.hashes))
		s.hashes = append(s.hashes, fingerprint(s.parent(len(s.hashes)), &tokens))
	}
}

func remove(list []*Sequence, s *Sequence) ([]*Sequence, bool) {
	i := slices.Index(list, s)
	if i < 0 {
		return list, false
	}
	return slices.Delete(list, i, i+1), true
}
