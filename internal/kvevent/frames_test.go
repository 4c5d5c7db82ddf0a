package kvevent

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLive(t *testing.T) {
	payload := []byte{0x93}
	seq := func(n int) []byte { return make([]byte, n) }
	ones := []byte("\xff\xff\xff\xff\xff\xff\xff\xff")
	tests := []struct {
		name   string
		frames [][]byte
		want   error
	}{
		{"good", [][]byte{[]byte("kv@a@m"), seq(8), payload}, nil},
		{"no topic", [][]byte{{}, seq(8), payload}, nil},
		{"sequence of no bytes", [][]byte{{}, seq(0), payload}, ErrSequence},
		{"sequence of 7 bytes", [][]byte{{}, seq(7), payload}, ErrSequence},
		{"sequence of 9 bytes", [][]byte{{}, seq(9), payload}, ErrSequence},
		{"the end of a replay", [][]byte{{}, ones, payload}, ErrSequence},
		{"no frames", nil, ErrFrames},
		{"one frame", [][]byte{{}}, ErrFrames},
		{"two frames", [][]byte{seq(8), payload}, ErrFrames},
		{"four frames", [][]byte{{}, {}, seq(8), payload}, ErrFrames},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := ParseLive(tt.frames)
			if !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if err == nil && string(m.Payload) != string(payload) {
				t.Errorf("payload %x", m.Payload)
			}
		})
	}
}

func TestParseReplay(t *testing.T) {
	seq := []byte("\x00\x00\x00\x00\x00\x00\x00\x07")
	ones := []byte("\xff\xff\xff\xff\xff\xff\xff\xff")
	batch := Message{Topic: []byte{}, Seq: 7, Payload: []byte("p")}
	topical := Message{Topic: []byte("t"), Seq: 7, Payload: []byte("p")}
	tests := []struct {
		name   string
		frames [][]byte
		want   Message
		end    bool
		err    error
	}{
		{"to 0.23", [][]byte{{}, seq, []byte("p")}, batch, false, nil},
		{"from 0.24", [][]byte{{}, []byte("t"), seq, []byte("p")}, topical, false, nil},
		{"from 0.24, on a REQ", [][]byte{[]byte("t"), seq, []byte("p")}, topical, false, nil},
		{"to 0.23, on a REQ", [][]byte{seq, []byte("p")}, Message{Seq: 7, Payload: []byte("p")}, false, nil},
		{"end to 0.23", [][]byte{{}, ones, {}}, Message{}, true, nil},
		{"end from 0.24", [][]byte{{}, {}, ones, {}}, Message{}, true, nil},
		{"7 bytes", [][]byte{{}, seq[1:], []byte("p")}, Message{}, false, ErrSequence},
		{"one frame", [][]byte{seq}, Message{}, false, ErrFrames},
		{"five frames", [][]byte{{}, {}, {}, seq, {}}, Message{}, false, ErrFrames},
		{"none", nil, Message{}, false, ErrFrames},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, end, err := ParseReplay(tt.frames)
			if !errors.Is(err, tt.err) || end != tt.end {
				t.Fatalf("end %v, error %v, want %v, %v", end, err, tt.end, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); err == nil && diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCapturedReplays(t *testing.T) {
	want := map[string][]uint64{ // sequence numbers; the end comes behind those of a DEALER
		"replay-dealer-last":       {305},
		"replay-dealer-beyond-end": nil,
		"replay-req-from-0":        {0},
	}
	from := map[string]uint64{"replay-dealer-last": 305, "replay-dealer-beyond-end": 1305}
	for _, s := range jsonLines[step](t, filepath.Join("testdata", "replay.jsonl")) {
		t.Run(s.Step, func(t *testing.T) {
			if start, ok := from[s.Step]; ok {
				if diff := cmp.Diff(unhexAll(t, s.Sent), ReplayRequest(start)); diff != "" {
					t.Errorf("request (-sent +ours):\n%s", diff)
				}
			}
			var got []uint64
			ended := false
			for _, frames := range s.Frames {
				m, end, err := ParseReplay(unhexAll(t, frames))
				if err != nil || ended {
					t.Fatalf("after the end %v, error %v", ended, err)
				}
				if ended = end; end {
					continue
				}
				got = append(got, m.Seq)
				if string(m.Topic) != "kv@127.0.0.1:8000@tiny" {
					t.Errorf("topic %q", m.Topic)
				}
				decode(t, m.Payload)
			}
			if diff := cmp.Diff(want[s.Step], got); diff != "" {
				t.Errorf("sequence numbers (-want +got):\n%s", diff)
			}
			if ended != (s.Step != "replay-req-from-0") {
				t.Errorf("ended: %v", ended)
			}
		})
	}
}
