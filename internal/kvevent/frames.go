package kvevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// What frames can be wrong with. Both cost the message alone.
var (
	ErrFrames   = errors.New("wrong number of frames")
	ErrSequence = errors.New("bad sequence number")
)

// A Message is one message of an engine's publisher: a batch that is still to
// be decoded. Its slices are the frames'.
type Message struct {
	Topic   []byte // the same for all ranks, and anybody can claim it
	Seq     uint64 // of the rank; +1 with each message, from 0 (some from 1) at the engine's start
	Payload []byte
}

const (
	seqBytes   = 8
	liveFrames = 3
	// endSeq marks the end of a replay.
	endSeq = math.MaxUint64
)

// ParseLive reads the frames of a message of the live stream: topic, sequence,
// payload. Errors are [ErrFrames] or [ErrSequence].
func ParseLive(frames [][]byte) (Message, error) {
	if len(frames) != liveFrames {
		return Message{}, fmt.Errorf("live message: %w: want topic, sequence and payload, have %d", ErrFrames, len(frames))
	}
	seq, err := sequence(frames[1])
	if err == nil && seq == endSeq {
		err = fmt.Errorf("%w: the mark of a replay's end", ErrSequence)
	}
	if err != nil {
		return Message{}, fmt.Errorf("live message: %w", err)
	}
	return Message{Topic: frames[0], Seq: seq, Payload: frames[2]}, nil
}

// ParseReplay reads the frames of one reply to a [ReplayRequest]; end says that
// it was the last and has no batch. Errors are [ErrFrames] or [ErrSequence].
//
// vLLM sends an empty frame, the sequence and the payload, since 0.24 the topic
// before the sequence, and a REQ socket is not shown the empty one. So it is
// read from its end.
func ParseReplay(frames [][]byte) (m Message, end bool, err error) {
	n := len(frames)
	if n < 2 || n > 4 {
		return Message{}, false, fmt.Errorf("reply of a replay: %w: want 2 to 4, have %d", ErrFrames, n)
	}
	if m.Seq, err = sequence(frames[n-2]); err != nil {
		return Message{}, false, fmt.Errorf("reply of a replay: %w", err)
	}
	if m.Seq == endSeq {
		return Message{}, true, nil
	}
	if n > 2 {
		m.Topic = frames[n-3]
	}
	m.Payload = frames[n-1]
	return m, false, nil
}

// ReplayRequest is the frames by which a DEALER asks for all batches from a
// sequence number on that the engine still has.
func ReplayRequest(from uint64) [][]byte {
	return [][]byte{{}, binary.BigEndian.AppendUint64(nil, from)}
}

func sequence(frame []byte) (uint64, error) {
	if len(frame) != seqBytes {
		return 0, fmt.Errorf("%w: want %d bytes, have %d", ErrSequence, seqBytes, len(frame))
	}
	return binary.BigEndian.Uint64(frame), nil
}
