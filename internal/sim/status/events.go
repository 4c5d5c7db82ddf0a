package status

import (
	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/sim/vllm"
)

// Events appends what a step changed in the cache, as KV events. loraID is the
// number of an adapter, -1 for the base model. The events keep the batch's slices.
func Events(dst []kvevent.Event, b *vllm.Batch, loraID func(adapter string) int64) []kvevent.Event {
	if b.Cleared {
		dst = append(dst, kvevent.Event{Kind: kvevent.Cleared})
	}
	for i := range b.Removed {
		dst = append(dst, kvevent.Event{Kind: kvevent.Removed, Hashes: b.Removed[i : i+1 : i+1]})
	}
	for _, run := range b.Stored {
		dst = append(dst, kvevent.Event{
			Kind: kvevent.Stored, Hashes: run.IDs, Parent: run.Parent, HasParent: !run.First,
			Tokens: run.Tokens, BlockSize: vllm.TokensPerBlock,
			LoRA: run.Root.Adapter, LoRAID: loraID(run.Root.Adapter), Salt: run.Root.Salt,
		})
	}
	return dst
}
