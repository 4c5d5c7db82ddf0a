package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// forward opens a port-forward with client-go, and returns the local address.
func (u *user) forward(t *testing.T, c *Cluster, pod string, port int, websocket bool) (address string, ended <-chan error) {
	t.Helper()
	stop, ready := make(chan struct{}), make(chan struct{})
	where := u.core.Post().Namespace(c.Namespace).Resource("pods").Name(pod).SubResource("portforward").URL()
	addresses, ports := []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}
	var forwarder *portforward.PortForwarder
	if websocket {
		dialer, err := portforward.NewSPDYOverWebsocketDialer(where, u.config)
		if err != nil {
			t.Fatal(err)
		}
		forwarder, err = portforward.NewOnAddresses(dialer, addresses, ports, stop, ready, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
	} else {
		transport, upgrader, err := spdy.RoundTripperFor(u.config)
		if err != nil {
			t.Fatal(err)
		}
		dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, where)
		forwarder, err = portforward.NewOnAddresses(dialer, addresses, ports, stop, ready, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	end := make(chan error, 1)
	go func() { end <- forwarder.ForwardPorts(); close(end) }()
	t.Cleanup(func() { close(stop); <-end })
	select {
	case <-ready:
	case err := <-end:
		t.Fatal(err)
	case <-time.After(patience):
		t.Fatal("no port-forward")
	}
	local, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", local[0].Local), end
}

func TestPortForward(t *testing.T) {
	c := Start(t)
	left := make(chan struct{}, 1)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
			left <- struct{}{}
			return
		}
		io.WriteString(w, "hello from "+r.URL.Path)
	}))
	defer target.Close()
	c.Pod(Pod{Name: "p", IP: "127.0.0.5"})
	c.Forward("p", 9091, target.Listener.Addr().String())
	admin := newUser(t, c, Admin)
	for _, test := range []struct {
		name      string
		websocket bool
	}{{"SPDY", false}, {"WebSocket", true}} {
		t.Run(test.name, func(t *testing.T) {
			address, _ := admin.forward(t, c, "p", 9091, test.websocket)
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for range 20 {
				if got := get(t.Context(), client, "http://"+address+"/x"); got != "hello from /x" {
					t.Fatal(got)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			res, err := client.Do(request(ctx, "http://"+address+"/hang"))
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			res.Body.Close()
			select {
			case <-left:
			case <-time.After(patience):
				t.Error("the client left and the target does not know")
			}
		})
	}
}

func TestPortForwardToNothing(t *testing.T) {
	c := Start(t)
	c.Pod(Pod{Name: "p", IP: "127.0.0.5"})
	address, ended := newUser(t, c, Admin).forward(t, c, "p", 9091, false)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if got := get(t.Context(), client, "http://"+address+"/x"); got[:4] != "Get " {
		t.Errorf("got %q, want an error", got)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the port-forward ended without an error")
		}
	case <-time.After(patience):
		t.Error("the port-forward goes on")
	}
}

func request(ctx context.Context, url string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		panic(err) // no URL
	}
	return req
}

// get is the body of the answer, or the error.
func get(ctx context.Context, client *http.Client, url string) string {
	res, err := client.Do(request(ctx, url))
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}
