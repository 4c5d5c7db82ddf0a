package admin

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/eppctl/eppctl/internal/logkey"
)

// Drain is what PUT /v1/pods/{pod}/drain takes. The answer is a [PodList] of the
// pod's endpoints.
type Drain struct {
	Document
	Drained *bool `json:"drained"`
}

// putDrain keeps new requests from a pod, or lets them come again.
func (s *server) putDrain(w http.ResponseWriter, r *http.Request) error {
	if err := s.writable(); err != nil {
		return err
	}
	var body Drain
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	if body.Drained == nil {
		return badRequest("the body: drained is missing").hint(`send {"drained": true}, or false to undo it`)
	}
	pod := r.PathValue("pod")
	if !s.Drain(pod, *body.Drained) {
		return s.noSuchPod(pod)
	}
	list, running := s.podList(func(name string) bool { return name == pod }), 0
	for _, p := range list.Items {
		running += p.InFlight
	}
	s.Logger.InfoContext(r.Context(), "drain of a pod changed", slog.String(logkey.Pod, pod),
		slog.Bool(logkey.Drained, *body.Drained), slog.Int(logkey.InFlight, running))
	return answer(w, r, list)
}

// maxNamed bounds the pods that an error lists.
const maxNamed = 20

func (s *server) noSuchPod(pod string) error {
	var names []string
	for _, p := range s.podList(func(string) bool { return true }).Items {
		if len(names) == maxNamed {
			names = append(names, "…")
			break
		}
		if !p.Departed {
			names = append(names, p.Pod)
		}
	}
	e := fail(http.StatusNotFound, CodeNoSuchPod, "there is no pod "+quoted(pod)+" in the pool")
	if len(names) == 0 {
		return e.hint("the pool is empty")
	}
	return e.hint(fmt.Sprintf("there are: %s", strings.Join(names, ", ")))
}
