package vllm

// A Text is token ids that are made when they are needed, for callers that have
// them in a smaller form: ten thousand prompts that wait would take their memory
// else.
type Text interface {
	Len() int
	// Append appends the ids from the one to the other, which is not included.
	Append(dst []uint32, from, to int) []uint32
}

// ids are a text that is there.
type ids []uint32

func (t ids) Len() int { return len(t) }

func (t ids) Append(dst []uint32, from, to int) []uint32 { return append(dst, t[from:to]...) }
