package extproc

import (
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec reads and writes [incoming], [raw] and [piece], and leaves other messages to
// protobuf. It keeps them in buffers of about their size. gRPC's own has none between
// 32 KiB and 1 MiB: a piece of a body, of 62,000 bytes, takes 1 MiB until it is
// sent, all of which is cleared each time.
type codec struct{ encoding.CodecV2 }

var ownCodec = codec{encoding.GetCodecV2(grpcproto.Name)}

// smallBuffers is up to where gRPC's buffers fit, in bytes.
const smallBuffers = 32 << 10

var buffers = mem.NewTieredBufferPool(64<<10, 128<<10, 256<<10, 512<<10, 1<<20)

func poolFor(size int) mem.BufferPool {
	if size <= smallBuffers {
		return mem.DefaultBufferPool()
	}
	return buffers
}

// Marshal implements [encoding.CodecV2].
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case raw:
		return mem.BufferSlice{mem.SliceBuffer(v)}, nil
	case *piece:
		return v.marshal(), nil
	case proto.Message:
		return marshal(v)
	}
	return c.CodecV2.Marshal(v)
}

func marshal(m proto.Message) (mem.BufferSlice, error) {
	size, options := proto.Size(m), proto.MarshalOptions{UseCachedSize: true}
	if mem.IsBelowBufferPoolingThreshold(size) {
		b, err := options.Marshal(m)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	pool := poolFor(size)
	b := pool.Get(size)
	if _, err := options.MarshalAppend((*b)[:0], m); err != nil {
		pool.Put(b)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(b, pool)}, nil
}

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	b := data.MaterializeToBuffer(poolFor(data.Len()))
	defer b.Free()
	switch v := v.(type) {
	case *incoming:
		return v.read(b.ReadOnlyData())
	case proto.Message:
		return proto.Unmarshal(b.ReadOnlyData(), v)
	}
	return c.CodecV2.Unmarshal(data, v)
}
