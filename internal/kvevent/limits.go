package kvevent

import "strconv"

// Limits bound what a payload may hold. Zero fields have the defaults.
type Limits struct {
	Bytes       int // of a payload; 64 MiB
	Events      int // of a batch; 65,536
	Hashes      int // of an event; 1,048,576; a batch has four times as many at most
	Tokens      int // of an event; 4,194,304; a batch has four times as many at most
	Depth       int // of nested arrays and maps; 16
	StringBytes int // of a string or a hash; 64 KiB
}

// batchFactor is how many times an event's limit a batch may hold.
const batchFactor = 4

func (l Limits) withDefaults() Limits {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&l.Bytes, 64<<20)
	set(&l.Events, 1<<16)
	set(&l.Hashes, 1<<20)
	set(&l.Tokens, 1<<22)
	set(&l.Depth, 16)
	set(&l.StringBytes, 64<<10)
	return l
}

// An Error says what is wrong with a payload, and where. It repeats nothing of
// the payload.
type Error struct {
	Event  int    // index in the batch; -1: the envelope
	Field  string // as token_ids; "": the event or the envelope as a whole
	Index  int    // in the field's list; -1: the field as a whole
	Detail string
}

// Error implements error: events[3].token_ids[7]: want an integer, have str.
func (e *Error) Error() string {
	place := ""
	if e.Event >= 0 {
		place = "events[" + strconv.Itoa(e.Event) + "]"
	}
	if e.Field != "" {
		if place != "" {
			place += "."
		}
		place += e.Field
	}
	if e.Index >= 0 {
		place += "[" + strconv.Itoa(e.Index) + "]"
	}
	if place == "" {
		place = "batch"
	}
	return place + ": " + e.Detail
}

// A fault is what is wrong, without the place.
type fault string

func (f fault) Error() string { return string(f) }

const (
	faultShort   fault = "ends too early"
	faultBig     fault = "announces more than the payload holds"
	faultInvalid fault = "is not msgpack"
	faultDeep    fault = "is nested too deeply"
	faultLong    fault = "is longer than the limit of strings"
	faultRange   fault = "is out of range"
	faultUTF8    fault = "is not valid UTF-8"
	faultMissing fault = "is missing"
	faultType    fault = "is of an unknown type"
)

func over(what string, limit int) fault {
	return fault("has more than " + strconv.Itoa(limit) + " " + what)
}
