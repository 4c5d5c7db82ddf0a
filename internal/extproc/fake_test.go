package extproc

import (
	"context"

	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// fakeStream is a stream without gRPC: it hands a list of messages to the
// handler, and its replies to a function.
type fakeStream struct {
	ctx     context.Context
	next    func() (*message, error)
	replied func(*reply)
	// shallow, if there is one, is asked in place of next: the handler gets the parts
	// of the message themselves, and no copies.
	shallow func() (*message, error)
	kept    bool // a message was held while the next one was waited for
}

func newFakeStream(next func() (*message, error), replied func(*reply)) *fakeStream {
	ctx, _ := cancellable(context.Background(), nil)
	return &fakeStream{ctx: ctx, next: next, replied: replied}
}

func (f *fakeStream) Context() context.Context         { return f.ctx }
func (f *fakeStream) SetHeader(grpcmetadata.MD) error  { return nil }
func (f *fakeStream) SendHeader(grpcmetadata.MD) error { return nil }
func (f *fakeStream) SetTrailer(grpcmetadata.MD)       {}
func (f *fakeStream) Send(m *reply) error              { return f.SendMsg(m) }

func (f *fakeStream) Recv() (*message, error) {
	m := new(incoming)
	return &m.ProcessingRequest, f.RecvMsg(m)
}

func (f *fakeStream) RecvMsg(into any) error {
	to := &into.(*incoming).ProcessingRequest
	f.kept = f.kept || to.GetRequest() != nil
	if f.shallow != nil {
		m, err := f.shallow()
		if err == nil {
			to.Request, to.ProtocolConfig, to.MetadataContext, to.Attributes = m.Request, m.ProtocolConfig, m.MetadataContext, m.Attributes
		}
		return err
	}
	m, err := f.next()
	if err != nil {
		return err
	}
	proto.Reset(to)
	proto.Merge(to, m)
	return nil
}

func (f *fakeStream) SendMsg(m any) error {
	data, err := ownCodec.Marshal(m)
	if err != nil {
		return err
	}
	defer data.Free()
	if f.shallow != nil {
		return nil
	}
	r := new(reply)
	if err := proto.Unmarshal(data.Materialize(), r); err != nil {
		return err
	}
	f.replied(r)
	return nil
}
