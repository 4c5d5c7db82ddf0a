package main

import (
	"net"
	"testing"

	service "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), // idle connections of the default client
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// serve runs a picker until the test has ended.
func serve(t *testing.T, p service.ExternalProcessorServer) (address string) {
	t.Helper()
	options, err := serverOptions()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	service.RegisterExternalProcessorServer(server, p)
	ended := make(chan error)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}
