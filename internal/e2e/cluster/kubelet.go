package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// A kubelet serves what the API server passes on to a node: port-forwards and logs.
// It knows of pods only what the tests tell it.
type kubelet struct {
	server *httptest.Server
	closed chan struct{}
	copies sync.WaitGroup

	mu       sync.Mutex
	tunnels  map[net.Conn]bool // connections that the HTTP server gave away
	forwards map[podPort]string
	logs     map[container]*Log
}

// A podPort is a port of a pod, which is namespace/name.
type podPort struct {
	pod  string
	port int32
}

// lingering is how long the other direction of a connection goes on after one ended.
const lingering = 500 * time.Millisecond

func startKubelet() (*kubelet, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // the server closes it
	if err != nil {
		return nil, err
	}
	k := &kubelet{
		closed: make(chan struct{}), tunnels: map[net.Conn]bool{}, forwards: map[podPort]string{}, logs: map[container]*Log{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		pod := r.PathValue("namespace") + "/" + r.PathValue("pod")
		portforward.ServePortForward(w, r, k, pod, "", nil, time.Hour, patience, portforward.SupportedProtocols)
	})
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.serveLog)
	k.server = httptest.NewUnstartedServer(mux)
	k.server.Listener.Close()
	k.server.Listener = listener
	k.server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateHijacked {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.tunnels[conn] = true
		}
	}
	k.server.StartTLS()
	return k, nil
}

// port is the one that the node names as the kubelet's.
func (k *kubelet) port() int { return k.server.Listener.Addr().(*net.TCPAddr).Port }

func (k *kubelet) stop() {
	close(k.closed)
	k.mu.Lock()
	for conn := range k.tunnels {
		conn.Close()
	}
	k.mu.Unlock()
	k.server.CloseClientConnections()
	k.server.Close()
	k.copies.Wait()
}

// PortForward implements [portforward.PortForwarder]. It ends soon after either side
// did, as a container runtime does.
func (k *kubelet) PortForward(ctx context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	k.mu.Lock()
	address := k.forwards[podPort{pod, port}]
	k.mu.Unlock()
	if address == "" {
		return fmt.Errorf("nothing listens on port %d of pod %s", port, pod)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	ended := make(chan struct{}, 2)
	k.copies.Go(func() { _, _ = io.Copy(conn, stream); ended <- struct{}{} })
	k.copies.Go(func() { _, _ = io.Copy(stream, conn); ended <- struct{}{} })
	<-ended
	select {
	case <-ended:
	case <-time.After(lingering):
	}
	return nil
}

// Forward makes port-forwards to a port of a pod go to an address. With "" nothing
// listens there any more.
func (c *Cluster) Forward(pod string, port int32, address string) {
	k := c.servers.kubelet
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forwards[podPort{c.Namespace + "/" + pod, port}] = address
}

// createNode makes the kubelet known to the API server.
func (s *servers) createNode() error {
	ctx := context.Background()
	const created = `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "` + node + `"}}`
	if _, err := s.request(ctx, http.MethodPost, "/api/v1/nodes", jsonType, []byte(created)); err != nil {
		return err
	}
	status := fmt.Sprintf(`{"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
		"daemonEndpoints": {"kubeletEndpoint": {"Port": %d}}}}`, s.kubelet.port())
	_, err := s.request(ctx, http.MethodPatch, "/api/v1/nodes/"+node+"/status", mergeType, []byte(status))
	return err
}
