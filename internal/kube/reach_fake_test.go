package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// fakeAPI is an API server with a kubelet behind it, as far as finding a picker asks
// for one.
type fakeAPI struct {
	mu      sync.Mutex
	objects map[string]any    // by path
	status  map[string]int    // of refused paths
	ports   map[string]string // "POD:PORT" to the address behind it
	asked   []string
}

// newFakeAPI serves objects by their paths; what is at none is not found.
func newFakeAPI(t *testing.T, objects map[string]any) (*fakeAPI, *Cluster) {
	t.Helper()
	api := &fakeAPI{objects: objects, status: map[string]int{}, ports: map[string]string{}}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return api, &Cluster{Namespace: "prod", Context: "gke-eu1", config: &rest.Config{Host: server.URL}}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+r.URL.Path)
	status, object := f.status[r.URL.Path], f.objects[r.URL.Path]
	f.mu.Unlock()
	switch text, isLog := object.(string); {
	case status != 0:
		refuse(w, r, status)
	case strings.HasSuffix(r.URL.Path, "/portforward") && object == nil:
		f.forward(w, r)
	case isLog:
		_, _ = io.WriteString(w, text)
	case object == nil:
		refuse(w, r, http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object)
	}
}

// refuse answers as an API server does.
func refuse(w http.ResponseWriter, r *http.Request, code int) {
	s := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code)}
	switch code {
	case http.StatusForbidden:
		s.Reason, s.Message = metav1.StatusReasonForbidden, fmt.Sprintf(`User "eve" cannot do this: %s %s`, r.Method, r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "/portforward") {
			s.Message = `pods "chat-epp-1" is forbidden: User "eve" cannot create resource "pods/portforward" in API group "" in the namespace "prod"`
		}
	case http.StatusUnauthorized:
		s.Reason, s.Message = metav1.StatusReasonUnauthorized, "Unauthorized"
	default:
		s.Reason, s.Message = metav1.StatusReasonNotFound, "the server could not find the requested resource"
		if strings.HasSuffix(r.URL.Path, "/portforward") {
			s.Message = `pods "chat-epp-1" not found`
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(s)
}

// forward is the kubelet: SPDY alone, as of an older server.
func (f *fakeAPI) forward(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "only SPDY here", http.StatusBadRequest)
		return
	}
	pod := strings.Split(r.URL.Path, "/")[6]
	portforward.ServePortForward(w, r, f, pod, "", nil, time.Hour, 30*time.Second, portforward.SupportedProtocols)
}

// PortForward implements the kubelet's [portforward.PortForwarder].
func (f *fakeAPI) PortForward(ctx context.Context, pod string, _ string, port int32, stream io.ReadWriteCloser) error {
	f.mu.Lock()
	address := f.ports[fmt.Sprintf("%s:%d", pod, port)]
	f.mu.Unlock()
	if address == "" {
		return fmt.Errorf("failed to connect to localhost:%d inside namespace: dial tcp 127.0.0.1:%d: connect: connection refused", port, port)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]io.ReadWriter{{conn, stream}, {stream, conn}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			ended <- struct{}{}
		}()
	}
	<-ended
	return nil
}

// behind puts a server behind a pod's port.
func (f *fakeAPI) behind(t *testing.T, pod string, port int, answer string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, answer, " ", r.Host) }))
	t.Cleanup(server.Close)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ports[fmt.Sprintf("%s:%d", pod, port)] = server.Listener.Addr().String()
	return server
}
