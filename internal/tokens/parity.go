package tokens

// Parity is how ids of ours compare with an engine's for the same prompt.
type Parity struct {
	Ours, Engines            int    // tokens
	OurBlocks, EnginesBlocks int    // full blocks
	SharedBlocks             int    // full blocks before the first difference
	Usage                    int    // the engine's usage.prompt_tokens; −1 when not told
	First                    int    // position of the first difference; −1 when there is none
	OurID, EnginesID         uint32 // that stand there, when both have one
	CountsAgree, UsageAgrees bool
}

// Compare compares ids of ours with those that an engine gave, and both with what
// it counted for the request (usage.prompt_tokens; −1 when it did not tell, which
// agrees with everything).
func Compare(ours, engines []uint32, usage, blockSize int) Parity {
	p := Parity{
		Ours: len(ours), Engines: len(engines), Usage: usage, First: -1,
		OurBlocks: len(ours) / blockSize, EnginesBlocks: len(engines) / blockSize,
	}
	p.CountsAgree = len(ours) == len(engines)
	p.UsageAgrees = usage < 0 || usage == len(ours)
	n := min(len(ours), len(engines))
	for i := range n {
		if ours[i] != engines[i] {
			p.First, p.OurID, p.EnginesID = i, ours[i], engines[i]
			p.SharedBlocks = i / blockSize
			return p
		}
	}
	p.SharedBlocks = n / blockSize
	if !p.CountsAgree {
		p.First = n
	}
	return p
}

// Exact reports the same ids, and as many as the engine counted.
func (p *Parity) Exact() bool { return p.First < 0 && p.UsageAgrees }
