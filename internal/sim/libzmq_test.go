package sim

import (
	"bufio"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/kvevent"
	"github.com/eppctl/eppctl/internal/zmtp/zmqtest"
)

// libzmqPeer starts a peer of package zmtp's tests and returns its next line, ""
// at its end. It ends with the test.
func libzmqPeer(t *testing.T, args ...string) (line func() string) {
	t.Helper()
	peer := zmqtest.Start(t, "../zmtp/testdata/peer.py", args...)
	lines := bufio.NewScanner(peer.Out)
	lines.Buffer(nil, 1<<20)
	return func() string {
		lines.Scan()
		return lines.Text()
	}
}

// libzmqLine reads a message as the peer prints it.
func libzmqLine(t *testing.T, line string) (frames [][]byte) {
	t.Helper()
	for part := range strings.SplitSeq(line, "|") {
		frame, err := hex.DecodeString(part)
		if err != nil {
			t.Fatalf("the peer says %q", line)
		}
		frames = append(frames, frame)
	}
	return frames
}

// What libzmq hears of a pod, live and replayed, is what our own subscriber hears.
func TestLibzmqHearsTheSame(t *testing.T) {
	f := start(t, Config{Events: true, Blocks: 16})
	pod := f.Pods()[0]
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	line := libzmqPeer(t, "sub", "--connect", port(pod.Events), "--topics", "kv@")
	if got := line(); !strings.HasPrefix(got, "ready") {
		t.Fatalf("the peer says %q", got)
	}
	subscribed(t, f, 0)
	const batches = 6
	for i := range batches { // the cache has room for two of the three prompts
		complete(t, pod, completionsPath, idsPrompt(i%3, 128, `,"max_tokens":1`))
	}
	live, want := newListener(), replayed(t, pod, 0)
	for range batches {
		m, err := kvevent.ParseLive(libzmqLine(t, line()))
		live.take(m, err)
	}
	line = libzmqPeer(t, "request", "--connect", port(pod.Replay))
	line()
	again := newListener()
	for {
		m, end, err := kvevent.ParseReplay(libzmqLine(t, line()))
		if end {
			break
		}
		again.take(m, err)
	}
	live.check(t)
	again.check(t)
	if live.gaps() != 0 || len(live.copies) == 0 || len(live.copies) != len(want.copies) {
		t.Errorf("libzmq heard %v of %d blocks, want 0 to %d and %d", live.seqs, len(live.copies), batches-1, len(want.copies))
	}
	for id, n := range want.copies {
		if live.copies[id] != n {
			t.Errorf("block %x: %d copies by libzmq, want %d", id, live.copies[id], n)
		}
	}
	if len(again.seqs) != batches-3 || again.seqs[0] != 3 { // from 3 on is what the peer asks for
		t.Errorf("a replay to libzmq has %v", again.seqs)
	}
}
