package kubetest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// Forward lets a port of a pod of any namespace be what listens at an address; "" =
// nothing does, as it is at first.
func (f *Server) Forward(pod string, port int, address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ports[fmt.Sprintf("%s:%d", pod, port)] = address
}

// Forwarded waits until all forwards have ended, which their clients have closed.
func (f *Server) Forwarded() { f.forwards.Wait() }

// Log is what is answered when a pod's log is asked for; one without is not found.
func (f *Server) Log(pod, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs[pod] = text
}

// kubelet answers what the node of a pod would. Forwards are SPDY alone, as of an older
// server.
func (f *Server) kubelet(w http.ResponseWriter, r *http.Request) bool {
	path, what := cutLast(r.URL.Path)
	if !strings.Contains(path, "/pods/") {
		return false
	}
	_, pod := cutLast(path)
	switch what {
	case "portforward":
		f.forwards.Add(1)
		defer f.forwards.Done()
		if r.Method != http.MethodPost {
			http.Error(w, "only SPDY here", http.StatusBadRequest)
			return true
		}
		portforward.ServePortForward(w, r, f, pod, "", nil, time.Hour, 30*time.Second, portforward.SupportedProtocols)
	case "log":
		f.mu.Lock()
		text, there := f.logs[pod]
		f.mu.Unlock()
		if !there || r.URL.Query().Get("previous") != "" {
			answerStatus(w, http.StatusNotFound, "NotFound")
			return true
		}
		_, _ = io.WriteString(w, text)
	default:
		return false
	}
	return true
}

// PortForward implements the kubelet's [portforward.PortForwarder].
func (f *Server) PortForward(ctx context.Context, pod string, _ string, port int32, stream io.ReadWriteCloser) error {
	f.forwards.Add(1)
	defer f.forwards.Done()
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
		f.forwards.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			ended <- struct{}{}
		})
	}
	<-ended
	return nil
}

// Image is a pod whose container runs an image, with arguments, and is up.
func Image(image string, args ...string) Edit {
	return func(_, spec, status Doc) {
		spec["containers"] = []Doc{{"name": "main", "image": image, "args": args}}
		status["containerStatuses"] = []Doc{{"name": "main", "state": Doc{"running": Doc{}}}}
	}
}

// Waiting is a pod whose only container does not run, and why.
func Waiting(reason string) Edit {
	return func(_, _, status Doc) {
		status["conditions"] = []Doc{{"type": "Ready", "status": "False"}}
		status["containerStatuses"] = []Doc{{"name": "main", "state": Doc{"waiting": Doc{"reason": reason}}}}
	}
}

// PickedBy is a pool whose picker is behind a Service.
func PickedBy(pool Doc, service string) Doc {
	pool["spec"].(Doc)["endpointPickerRef"] = Doc{"name": service, "port": Doc{"number": 9002}}
	return pool
}

// Service is one in front of the pods with a label app; "" = it has no selector.
func Service(name, app string) Doc {
	spec := Doc{"ports": []Doc{{"port": 9002}}}
	if app != "" {
		spec["selector"] = Doc{"app": app}
	}
	return Doc{"kind": "Service", "apiVersion": "v1", "metadata": Doc{"name": name, "namespace": "serving"}, "spec": spec}
}
