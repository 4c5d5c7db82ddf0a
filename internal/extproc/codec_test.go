package extproc

import (
	"bytes"
	"testing"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// TestCodecKeepsMessages: whatever their size, and however often a buffer is used
// again.
func TestCodecKeepsMessages(t *testing.T) {
	for _, size := range []int{0, 1, smallBuffers - 10, smallBuffers, smallBuffers + 1, maxPiece, 64 << 10, 1<<20 - 1, 1 << 20, 3 << 20} {
		for round := range 3 {
			text := bytes.Repeat([]byte{byte('a' + round)}, size)
			want := requestBody(string(text), round == 1)
			data, err := ownCodec.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			if data.Len() != proto.Size(want) {
				t.Errorf("%d bytes are written as %d, want %d", size, data.Len(), proto.Size(want))
			}
			var got extproc.ProcessingRequest
			if err := ownCodec.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			data.Free()
			if !proto.Equal(want, &got) {
				t.Errorf("a message with %d bytes comes back as another", size)
			}
		}
	}
	if _, err := ownCodec.Marshal("no message"); err == nil {
		t.Error("a string is taken for a message")
	}
}

// TestPiecesAreProtobuf: of any size, with and without an end.
func TestPiecesAreProtobuf(t *testing.T) {
	for _, size := range []int{0, 1, 127, 128, 1000, 1023, 1024, smallBuffers, maxPiece} {
		for _, last := range []bool{false, true} {
			text := bytes.Repeat([]byte{'a'}, size)
			body := &extproc.BodyResponse{Response: &extproc.CommonResponse{BodyMutation: &extproc.BodyMutation{
				Mutation: &extproc.BodyMutation_StreamedResponse{StreamedResponse: &extproc.StreamedBodyResponse{Body: text, EndOfStream: last}},
			}}}
			for _, tt := range []struct {
				of   protowire.Number
				want *reply
			}{
				{fieldRequestBodyReply, &reply{Response: &extproc.ProcessingResponse_RequestBody{RequestBody: body}}},
				{fieldResponseBodyReply, &reply{Response: &extproc.ProcessingResponse_ResponseBody{ResponseBody: body}}},
			} {
				data := (&piece{tt.of, text, last}).marshal()
				var got reply
				if err := proto.Unmarshal(data.Materialize(), &got); err != nil || !proto.Equal(&got, tt.want) || data.Len() != proto.Size(tt.want) {
					t.Errorf("%d bytes, last %v: %v, %d bytes of a message, want %d", size, last, err, data.Len(), proto.Size(tt.want))
				}
				data.Free()
			}
		}
	}
}

// TestBufferedBodiesAreAdmittedFirst: the gateway sends one only when there is
// memory for it.
func TestBufferedBodiesAreAdmittedFirst(t *testing.T) {
	bubble(t, func(s *setup) { s.server.MaxBody, s.server.MaxBodies = 4000, 5000 }, func(t *testing.T, s *site) {
		first := s.open(t, buffered, fullDuplex)
		first.send(post("content-length", "4000"))
		if held := s.Stats().BodyBytes; held != 4000 {
			t.Errorf("%d bytes are held for a body of 4000 that is announced", held)
		}
		second := s.open(t, buffered, fullDuplex)
		second.send(post("content-length", "3000"))
		third := s.open(t, buffered, fullDuplex)
		third.send(post("content-length", "4001"))
		if got := s.Stats(); got.Refused != 2 || got.Overloaded != 1 {
			t.Errorf("refused %d, overloaded %d; want 2 and 1", got.Refused, got.Overloaded)
		}
		first.leave()
		second.done()
		third.done()
		s.settled(t)
	})
}
