package kvevent

import "fmt"

// Generation is an encoding, named by the first version of vLLM that has it.
type Generation uint8

// The generations that [Append] writes. What one has no field for it leaves
// out: an adapter's name before 0.13 becomes its number, for instance.
const (
	ArrayV08    Generation = iota // 0.8.3: no rank, no medium
	ArrayV09                      // 0.9.1: the envelope has the rank
	ArrayV10                      // 0.10.1: medium
	ArrayV13                      // 0.13: lora_name
	ArrayV16                      // 0.16: extra_keys, with bare multimodal identifiers as 0.18.0
	ArrayV19                      // 0.19: group_idx, and identifiers with an offset
	ArrayV21                      // 0.21: kv_cache_spec_kind and its window
	MapV24                        // 0.24 to 0.32, the latest seen: maps
	SGLangArray                   // until about 0.5.20: signed hashes, a map with the salt behind the medium
	SGLangMap                     // after that
)

var generationNames = [...]string{
	ArrayV08: "vllm-0.8", ArrayV09: "vllm-0.9", ArrayV10: "vllm-0.10", ArrayV13: "vllm-0.13", ArrayV16: "vllm-0.16",
	ArrayV19: "vllm-0.19", ArrayV21: "vllm-0.21", MapV24: "vllm-0.24", SGLangArray: "sglang-array", SGLangMap: "sglang-map",
}

func (g Generation) String() string {
	if int(g) >= len(generationNames) {
		return fmt.Sprintf("Generation(%d)", uint8(g))
	}
	return generationNames[g]
}

func (g Generation) sglang() bool { return g == SGLangArray || g == SGLangMap }
func (g Generation) maps() bool   { return g == MapV24 || g == SGLangMap }

// order lists what an array of the kind has behind its type.
func (g Generation) order(k Kind) []field {
	counts := [...]struct{ stored, removed int }{
		ArrayV08: {5, 1}, ArrayV09: {5, 1}, ArrayV10: {6, 2}, ArrayV13: {7, 2}, ArrayV16: {8, 2},
		ArrayV19: {9, 3}, ArrayV21: {11, 3}, MapV24: {11, 3}, SGLangArray: {6, 2}, SGLangMap: {6, 2},
	}
	switch k {
	case Stored:
		return storedOrder[:counts[g].stored]
	case Removed:
		return removedOrder[:counts[g].removed]
	default:
		return nil
	}
}

// keys appends to dst what a map has behind its type: the same as the array,
// without the fields from extra_keys on that have no value.
func (g Generation) keys(dst []field, e *Event) []field {
	for _, f := range g.order(e.Kind) {
		absent := f == fieldExtraKeys && len(e.Hashes) == 0 ||
			f == fieldGroup && e.Group < 0 ||
			f == fieldWindow && e.Window == 0
		if !absent {
			dst = append(dst, f)
		}
	}
	if g.salted(e) {
		dst = append(dst, fieldCacheSalt)
	}
	return dst
}

// salted says that the event tells its salt by itself, not in extra_keys.
func (g Generation) salted(e *Event) bool {
	return g.sglang() && e.Kind == Stored && e.Salt != ""
}

// medium is the tier's name.
func (g Generation) medium(t Tier) string {
	names := [...]string{GPU: "GPU", CPU: "CPU", Disk: "STORAGE", External: "EXTERNAL", OtherTier: "OTHER"}
	if g.sglang() {
		names[CPU], names[Disk] = "CPU_PINNED", "DISK"
	}
	return names[t]
}
