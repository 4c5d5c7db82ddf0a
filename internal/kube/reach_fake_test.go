package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

// fakeAPI is an API server that answers word for word what a test says: objects by
// their paths, refusals, logs. The nodes behind it are kubetest's.
type fakeAPI struct {
	nodes   *kubetest.Server
	objects map[string]any // by path
	status  map[string]int // of refused paths
}

// newFakeAPI serves objects by their paths; what is at none is not found.
func newFakeAPI(t *testing.T, objects map[string]any) (*fakeAPI, *Cluster) {
	t.Helper()
	api := &fakeAPI{nodes: kubetest.New(t), objects: objects, status: map[string]int{}}
	api.nodes.Instead(api.answer)
	return api, &Cluster{Namespace: "prod", Context: "gke-eu1", config: &rest.Config{Host: api.nodes.URL}}
}

// answer leaves to the nodes what is theirs.
func (f *fakeAPI) answer(w http.ResponseWriter, r *http.Request) bool {
	status, object := f.status[r.URL.Path], f.objects[r.URL.Path]
	switch text, isLog := object.(string); {
	case status != 0:
		refuse(w, r, status)
	case strings.HasSuffix(r.URL.Path, "/portforward") && object == nil:
		return false
	case isLog:
		_, _ = io.WriteString(w, text)
	case object == nil:
		refuse(w, r, http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object)
	}
	return true
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

// behind puts a server behind a pod's port.
func (f *fakeAPI) behind(t *testing.T, pod string, port int, answer string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, answer, " ", r.Host) }))
	t.Cleanup(server.Close)
	f.nodes.Forward(pod, port, server.Listener.Addr().String())
}
