package kvevent

import (
	"errors"
	"path/filepath"
	"testing"
)

// checkDecoded decodes anything, and checks what callers rely on.
func checkDecoded(t testing.TB, d *Decoder, payload []byte) {
	t.Helper()
	b, err := d.Decode(payload)
	if err != nil {
		if _, ok := errors.AsType[*Error](err); !ok || b != nil {
			t.Fatalf("Decode: %v, %v: want no batch and an *Error", b, err)
		}
		return
	}
	if (b.Skipped > 0) != (b.Reason != nil) || b.Rank < -1 {
		t.Fatalf("batch %+v", b)
	}
	bytes := 0
	for i := range b.Events {
		e := &b.Events[i]
		bytes += len(e.Hashes) + len(e.Tokens) + len(e.Media) + 1
		if e.BlockSize < 0 || e.Group < -1 || e.Window < 0 || e.LoRAID < -1 || e.HasParent && e.Parent == 0 {
			t.Fatalf("event %+v", e)
		}
		if e.Salt != "" || e.SaltHash != "" && len(e.SaltHash) != 2*saltBytes {
			t.Fatalf("salt %q, hash %q", e.Salt, e.SaltHash)
		}
		for _, m := range e.Media {
			if m.Block < 0 || m.Block >= len(e.Hashes) || m.ID != "" {
				t.Fatalf("media %+v of %d blocks", m, len(e.Hashes))
			}
		}
		if e.Kind != Stored && (e.Tokens != nil || e.HasParent || e.Media != nil) {
			t.Fatalf("event %+v", e)
		}
		_ = e.Complete()
	}
	if bytes > len(payload) {
		t.Fatalf("%d bytes hold %d things", len(payload), bytes)
	}
}

func FuzzDecode(f *testing.F) {
	for _, file := range []string{"vllm.jsonl", "simulator.jsonl"} {
		for _, s := range jsonLines[step](f, filepath.Join("testdata", file)) {
			if payload := unhex(f, s.Frames[0][2]); len(payload) < 2000 {
				f.Add(payload)
			}
		}
	}
	extra := list{list{"fr", list{"img", 3}, "salt"}, list{[]byte{1}, "img"}}
	f.Add(pack(f, list{1.5, list{list{"BlockStored", list{-7, []byte("12345678")}, 5, list{1, 2}, 1, 3, "CPU", "fr", extra, 1, "mamba", 64}}}))
	f.Add(pack(f, list{1.5, list{list{"BlockStored", list{7}, nil, list{1}, 1, "id", "DISK", dict{"cache_salt", "s"}}}, 1}))
	f.Add(pack(f, dict{"events", list{dict{"type", "AllBlocksCleared"}, list{"X"}}, "ts", nil}))
	f.Add(unhex(f, `92 cb0000000000000000 ddffffffff`))
	d := new(Decoder) // kept, as a stream's is
	f.Fuzz(func(t *testing.T, payload []byte) {
		checkDecoded(t, d, payload)
	})
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("topic"), []byte("12345678"), []byte("payload"), uint8(3))
	f.Add([]byte(""), []byte("\xff\xff\xff\xff\xff\xff\xff\xff"), []byte(""), uint8(4))
	f.Add([]byte(""), []byte("1234567"), []byte(""), uint8(2))
	f.Fuzz(func(t *testing.T, topic, seq, payload []byte, n uint8) {
		frames := [][]byte{nil, topic, seq, payload}
		frames = frames[len(frames)-int(n)%5:]
		for _, err := range []error{liveError(frames), replayError(frames)} {
			if err != nil && !errors.Is(err, ErrFrames) && !errors.Is(err, ErrSequence) {
				t.Errorf("error %v", err)
			}
		}
	})
}

func liveError(frames [][]byte) error {
	_, err := ParseLive(frames)
	return err
}

func replayError(frames [][]byte) error {
	_, _, err := ParseReplay(frames)
	return err
}
