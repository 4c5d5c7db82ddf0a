package kubetest

import (
	"net/http"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/nettest"
)

// InMemory starts a server that ends with the test and is reached by its Transport
// alone, so that a test with it can be in a bubble of fake time.
func InMemory(t interface{ Cleanup(end func()) }) *Server {
	f := newServer()
	line := nettest.Listen()
	transport := &http.Transport{DialContext: line.Dial}
	f.URL, f.Transport = "http://api.test", transport
	server := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(line) })
	t.Cleanup(func() {
		f.Cut()
		_ = server.Close()
		serving.Wait()
		transport.CloseIdleConnections()
	})
	return f
}
