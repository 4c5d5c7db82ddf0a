package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/pprof"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	service "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/extproc"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/steering"
)

// maxPiece is the longest piece of a body in a reply: gateways may set a
// max_receive_message_length of 65536.
const maxPiece = 62_000

// noop is the least that a correct picker does: it waits for the end of the body,
// sends every request to the same endpoint, and gives all bytes back as they came.
type noop struct {
	service.UnimplementedExternalProcessorServer
	headers *service.ProcessingResponse
}

func newNoop(destination string) *noop {
	value := &core.HeaderValue{Key: steering.Destination, RawValue: []byte(destination)}
	// The protocol wants the same value as dynamic metadata.
	lb, err := structpb.NewStruct(map[string]any{"envoy.lb": map[string]any{steering.Destination: destination}})
	if err != nil {
		panic(err) // strings always fit
	}
	return &noop{headers: &service.ProcessingResponse{DynamicMetadata: lb, Response: &service.ProcessingResponse_RequestHeaders{
		RequestHeaders: &service.HeadersResponse{Response: &service.CommonResponse{
			ClearRouteCache: true,
			HeaderMutation:  &service.HeaderMutation{SetHeaders: []*core.HeaderValueOption{{Header: value}}},
		}},
	}}}
}

// Process implements the service.
func (n *noop) Process(stream service.ExternalProcessor_ProcessServer) error {
	var body [][]byte
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		switch r := m.GetRequest().(type) {
		case *service.ProcessingRequest_RequestHeaders:
			if r.RequestHeaders.GetEndOfStream() {
				err = stream.Send(n.headers)
			}
		case *service.ProcessingRequest_RequestBody:
			body = append(body, r.RequestBody.GetBody())
			if r.RequestBody.GetEndOfStream() {
				err = n.decide(stream, body, true)
			}
		case *service.ProcessingRequest_RequestTrailers:
			if err = n.decide(stream, body, false); err == nil {
				err = stream.Send(&service.ProcessingResponse{Response: &service.ProcessingResponse_RequestTrailers{RequestTrailers: &service.TrailersResponse{}}})
			}
		case *service.ProcessingRequest_ResponseHeaders:
			err = stream.Send(&service.ProcessingResponse{Response: &service.ProcessingResponse_ResponseHeaders{
				ResponseHeaders: &service.HeadersResponse{},
			}})
		case *service.ProcessingRequest_ResponseBody:
			err = stream.Send(&service.ProcessingResponse{Response: &service.ProcessingResponse_ResponseBody{
				ResponseBody: streamed(r.ResponseBody.GetBody(), r.ResponseBody.GetEndOfStream()),
			}})
		case *service.ProcessingRequest_ResponseTrailers:
			err = stream.Send(&service.ProcessingResponse{Response: &service.ProcessingResponse_ResponseTrailers{ResponseTrailers: &service.TrailersResponse{}}})
		}
		if err != nil {
			return err
		}
	}
}

// decide answers the headers, and then the body, which ends with its last piece
// unless trailers do.
func (n *noop) decide(stream service.ExternalProcessor_ProcessServer, body [][]byte, end bool) error {
	if err := stream.Send(n.headers); err != nil {
		return err
	}
	for i, b := range body {
		for len(b) > maxPiece {
			if err := sendBody(stream, b[:maxPiece], false); err != nil {
				return err
			}
			b = b[maxPiece:]
		}
		last := i == len(body)-1 || i == len(body)-2 && len(body[i+1]) == 0
		if err := sendBody(stream, b, end && last); err != nil || last {
			return err
		}
	}
	return nil
}

func sendBody(stream service.ExternalProcessor_ProcessServer, b []byte, end bool) error {
	return stream.Send(&service.ProcessingResponse{Response: &service.ProcessingResponse_RequestBody{RequestBody: streamed(b, end)}})
}

func streamed(b []byte, end bool) *service.BodyResponse {
	return &service.BodyResponse{Response: &service.CommonResponse{BodyMutation: &service.BodyMutation{
		Mutation: &service.BodyMutation_StreamedResponse{StreamedResponse: &service.StreamedBodyResponse{Body: b, EndOfStream: end}},
	}}}
}

// addresses are those parts of an address file that are needed here.
type addresses struct {
	Extproc string `json:"extproc"`
	Metrics string `json:"metrics"`
}

func runNoop(ctx context.Context, args []string, s *cli.Streams) error {
	flags := flag.NewFlagSet("extprocload noop", flag.ContinueOnError)
	address := flags.String("addr", "127.0.0.1:0", "HOST:PORT to serve ext_proc on, without TLS")
	metrics := flags.String("metrics-addr", "127.0.0.1:0", "HOST:PORT of /metrics, with the Go runtime's figures")
	addrFile := flags.String("addr-file", "", "write the real addresses to this file as JSON")
	destination := flags.String("destination", "127.0.0.1:18101", "endpoint that every request goes to")
	profile := flags.String("cpuprofile", "", "write a CPU profile to this file")
	if done, err := parse(flags, args, s); done {
		return err
	}
	options, err := serverOptions()
	if err != nil {
		return err
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	server := grpc.NewServer(options...)
	service.RegisterExternalProcessorServer(server, newNoop(*destination))
	var listen net.ListenConfig
	ln, err := listen.Listen(ctx, "tcp", *address)
	if err != nil {
		return err
	}
	page, err := listen.Listen(ctx, "tcp", *metrics)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	return serveNoop(ctx, server, ln, page, *addrFile)
}

func serveNoop(ctx context.Context, server *grpc.Server, ln, page net.Listener, addrFile string) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	pages := &http.Server{Handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), ReadHeaderTimeout: time.Second}
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(ln) }()
	go func() { ended <- pages.Serve(page) }()
	err := writeJSONFile(addrFile, addresses{Extproc: ln.Addr().String(), Metrics: page.Addr().String()})
	waiting := 2
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended: // before its time
			waiting--
		}
	}
	server.Stop()
	err = errors.Join(err, pages.Close())
	for range waiting {
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// serverOptions are the settings of this project's picker, so that both differ in
// what they do and in nothing else.
func serverOptions() ([]grpc.ServerOption, error) {
	s, err := extproc.New(extproc.Config{Picker: nobody{}, Clock: clock.Wall{}})
	if err != nil {
		return nil, err
	}
	return s.Options(), nil
}

// nobody is the picker of a server that is asked for its options alone.
type nobody struct{}

func (nobody) Pick(context.Context, *picker.Call) (*picker.Pick, error) {
	return nil, errors.New("there is no picker")
}

// writeJSONFile writes v for a reader that waits for the file; "" writes nothing.
func writeJSONFile(path string, v any) error {
	if path == "" {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the addresses: %w", err)
	}
	return os.Rename(path+".new", path)
}
