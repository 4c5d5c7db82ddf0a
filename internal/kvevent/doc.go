// Package kvevent reads and writes the KV cache events of model servers: what
// an engine says it stored in its cache and removed from it.
//
// # The one idea
//
// Three generations of encodings and two engines say the same few things, so
// there is one reader for all of them and nothing to configure: arrays and maps
// are both lists of named fields, fields that are missing are at their default,
// fields that are not known are skipped, and an event of an unknown type costs
// that event and not its batch. A batch is msgpack:
//
//	[ts, [event, …], data parallel rank]     or a map with these names
//
//	event, array   ["BlockStored", block_hashes, parent_block_hash, …]
//	event, map     {"type": "BlockStored", "block_hashes": …, …}
//
// in which a BlockStored has, in the order of the arrays:
//
//	block_hashes, parent_block_hash, token_ids, block_size, lora_id   0.8.3
//	medium                                                            0.10.1
//	lora_name                                                         0.13
//	extra_keys                                                        0.16
//	group_idx                                                         0.19
//	kv_cache_spec_kind, kv_cache_spec_sliding_window                  0.21
//	the same as a map                                                 0.24
//	locality, ownership, session_id                                   0.27 to 0.29
//
// and a BlockRemoved block_hashes, medium, group_idx. The envelope has its rank
// since 0.9.1. SGLang stops at medium, and has an optional map behind it.
// [Generation] names the ones that [Append] writes.
//
// # Trust
//
// The sockets are not authenticated, so a payload is hostile until decoded. An
// array that announces more than the rest of the payload can hold is refused
// before anything is allocated, [Limits] bound the rest, and the work grows
// with the bytes alone. Token ids are the prompt's text and salts are a
// tenant's secret: errors repeat neither, salts are hashed where they lie, and
// nothing of the payload is kept but adapters' names.
//
// # What it does not do
//
// It opens no socket, follows no sequence and keeps no state of any cache:
// duplicates, gaps, restarts and chains are for its caller.
package kvevent
