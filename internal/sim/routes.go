package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/eppctl/eppctl/internal/sim/vllm"
)

const (
	requestIDHeader = "X-Request-Id"
	maxRequestID    = 128
	maxBody         = 64 << 20
	version         = "0.32.0" // of the vLLM whose answers ours look like
)

// routes are those of a vLLM server that we have, and its ways to say no.
func (s *server) routes() http.Handler {
	handlers := map[string]struct {
		method string
		handle http.HandlerFunc
	}{
		"/v1/chat/completions": {http.MethodPost, s.generate},
		"/v1/completions":      {http.MethodPost, s.generate},
		"/tokenize":            {http.MethodPost, s.tokenize},
		"/v1/models":           {http.MethodGet, s.models},
		"/health":              {http.MethodGet, func(http.ResponseWriter, *http.Request) {}},
		"/ping":                {http.MethodGet, func(http.ResponseWriter, *http.Request) {}},
		"/version":             {http.MethodGet, s.version},
		"/metrics":             {http.MethodGet, s.metrics},
		"/kv_event_sources":    {http.MethodGet, s.eventSources},
		"/reset_prefix_cache":  {http.MethodPost, s.resetCache},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := requestID(r); id != "" {
			w.Header().Set(requestIDHeader, id)
		}
		if r.URL.Path == GPUPath {
			s.gpu(w, r)
			return
		}
		switch s.pod.currentFaults().failing {
		case FailHang:
			s.hang(r)
		case FailClose:
			cut()
		case FailStatus:
			writeError(w, &apiError{status: http.StatusInternalServerError, message: "the simulated engine is failing"})
			return
		}
		h, ok := handlers[r.URL.Path]
		switch {
		case !ok:
			writeJSON(w, http.StatusNotFound, map[string]string{"detail": "Not Found"})
		case h.method != r.Method:
			w.Header().Set("Allow", h.method)
			writeJSON(w, http.StatusMethodNotAllowed, map[string]string{"detail": "Method Not Allowed"})
		default:
			h.handle(w, r)
		}
	})
}

// hang waits until the pod recovers. Only a request that was read to its end shows
// when its client goes away.
func (s *server) hang(r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil || s.pod.hung.pass(r.Context()) != nil {
		cut()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
}

// requestID is the caller's, if it is fit to be repeated.
func requestID(r *http.Request) string {
	id := r.Header.Get(requestIDHeader)
	if len(id) > maxRequestID || strings.ContainsFunc(id, func(c rune) bool { return c < ' ' || c > '~' }) {
		return ""
	}
	return id
}

// An apiError is a refusal in vLLM's form: OpenAI's, with the status as code.
type apiError struct {
	status  int
	param   string
	message string
}

func (e *apiError) kind() string {
	switch e.status {
	case http.StatusNotFound:
		return "NotFoundError"
	case http.StatusInternalServerError:
		return "InternalServerError"
	}
	return "BadRequestError"
}

func writeError(w http.ResponseWriter, e *apiError) {
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	b := body{Message: e.message, Type: e.kind(), Code: e.status}
	if e.param != "" {
		b.Param = &e.param
	}
	writeJSON(w, e.status, map[string]body{"error": b})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone is no concern of the engine's
}

// adapter finds what a request's model means: "" for the base model.
func (s *server) adapter(model string) (string, *apiError) {
	f := s.pod.fleet
	if model == f.cfg.Model {
		return "", nil
	}
	names := []string{f.cfg.Model}
	for _, a := range f.cfg.Adapters {
		if a.Name == model {
			return model, nil
		}
		names = append(names, a.Name)
	}
	return "", &apiError{
		status: http.StatusNotFound, param: "model",
		message: fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", model, strings.Join(names, ", ")),
	}
}

func (s *server) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": version})
}

// resetCache empties the cache, unless requests run.
func (s *server) resetCache(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]bool{"success": s.reset()})
}

func (s *server) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID          string  `json:"id"`
		Object      string  `json:"object"`
		Created     int64   `json:"created"`
		OwnedBy     string  `json:"owned_by"`
		Root        string  `json:"root"`
		Parent      *string `json:"parent"`
		MaxModelLen *int    `json:"max_model_len"`
	}
	f := s.pod.fleet
	created := s.origin.Unix()
	list := []model{{
		ID: f.cfg.Model, Object: "model", Created: created, OwnedBy: "vllm",
		Root: f.cfg.Model, MaxModelLen: new(vllm.DefaultMaxLength),
	}}
	for _, a := range f.cfg.Adapters {
		list = append(list, model{
			ID: a.Name, Object: "model", Created: created, OwnedBy: "vllm",
			Root: "/adapters/" + a.Name, Parent: &f.cfg.Model,
		})
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}
