// Package assume is a guess at what an engine holds in its prefix cache, from
// nothing but what was sent to it.
//
// The one idea: do as the engine does. vLLM's cache is a list of blocks by last
// use; a request that ends puts its blocks at the recent end, the last one
// first, so that a chain is evicted from its tail; what needs room takes it from
// the old end. With the engine's own capacity the same list of the same prompts
// forgets the same blocks at about the same time. Where the engine says that it
// found less, the order tells what else is gone, all that was last used before what
// it missed, and how little room there is ([Cache.Counted]): others may use it too.
//
// What was answered takes room too, and is known by its length alone: such blocks
// stand behind the last one of their prompt, until a longer prompt names them.
//
// The package knows no pods, no tree and no clock; it starts nothing and locks
// nothing.
package assume
