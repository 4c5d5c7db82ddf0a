package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/telemetry"
	"github.com/eppctl/eppctl/score"
)

func (s *server) weights(w http.ResponseWriter, r *http.Request) error {
	return answerWeights(w, r, s.Picker.Weights())
}

func answerWeights(w http.ResponseWriter, r *http.Request, weights *score.Weights) error {
	w.Header().Set("ETag", etag(weights.Generation))
	return answer(w, r, Weights{document("Weights"), explain.RecordWeights(weights)})
}

func etag(generation uint64) string { return `"` + strconv.FormatUint(generation, 10) + `"` }

func (s *server) putWeights(w http.ResponseWriter, r *http.Request) error {
	if err := s.writable(); err != nil {
		return err
	}
	generation, err := precondition(r)
	if err != nil {
		return err
	}
	var body weightsBody
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	old := s.Picker.Weights()
	next, err := body.over(old)
	if err != nil {
		return err
	}
	now, err := s.Picker.SetWeights(*next, generation)
	switch {
	case errors.Is(err, picker.ErrGeneration):
		return generationChanged(generation, now)
	case err != nil:
		return fail(http.StatusUnprocessableEntity, CodeInvalidWeights, err.Error()).hint("nothing was changed")
	}
	next.Generation = now
	s.Logger.InfoContext(r.Context(), "weights changed",
		slog.Uint64(logkey.Generation, now),
		slog.Any(logkey.Weights, explain.RecordWeights(next)),
		slog.Any(logkey.Previous, explain.RecordWeights(old)))
	return answerWeights(w, r, next)
}

func (s *server) writable() error {
	if s.AllowWrite {
		return nil
	}
	return fail(http.StatusForbidden, CodeReadOnly, "this picker may not be changed from here").hint("start it with --allow-write, or in a cluster: kubectl set env -n NAMESPACE deployment/NAME EPPCTL_ALLOW_WRITE=true")
}

// precondition reads If-Match: the generation that the new weights replace.
func precondition(r *http.Request) (uint64, error) {
	const hint = "send the ETag of GET /v1/config/weights as If-Match"
	match := r.Header.Values("If-Match")
	if len(match) == 0 {
		return 0, fail(http.StatusPreconditionRequired, CodePrecondition, "If-Match is missing: which weights are these to replace?").hint(hint)
	}
	generation, err := strconv.ParseUint(strings.Trim(match[0], `"`), 10, 64)
	if err != nil || len(match) > 1 {
		return 0, badRequest("If-Match: must be one generation, got %s", quoted(strings.Join(match, ", "))).hint(hint)
	}
	return generation, nil
}

func generationChanged(given, now uint64) error {
	e := fail(http.StatusPreconditionFailed, CodeGenerationChanged,
		fmt.Sprintf("the weights have changed meanwhile: generation %d is in force, not %d", now, given)).
		hint("read the weights again and decide anew")
	e.doc.Generation = &now
	return e
}

// weightsBody is what PUT /v1/config/weights takes: what GET gives. All weights
// must be there; limits that are left out stay.
type weightsBody struct {
	Document
	Cache          *float64               `json:"cache"`
	Load           *float64               `json:"load"`
	Queue          *float64               `json:"queue"`
	Health         *float64               `json:"health"`
	Adapter        *float64               `json:"adapter"`
	Custom         []explain.CustomWeight `json:"custom"`
	MaxQueue       *int                   `json:"maxQueue"`
	MaxUtilization *float64               `json:"maxUtilization"`
	Saturation     *string                `json:"saturation"`
	Generation     *uint64                `json:"generation"` // If-Match says it
}

// over lays the body over the weights in force.
func (b *weightsBody) over(old *score.Weights) (*score.Weights, error) {
	next := old.Clone()
	var missing []string
	for _, weight := range []struct {
		key   string
		given *float64
		to    *float64
	}{
		{"cache", b.Cache, &next.Cache},
		{"load", b.Load, &next.Load},
		{"queue", b.Queue, &next.Queue},
		{"health", b.Health, &next.Health},
		{"adapter", b.Adapter, &next.Adapter},
	} {
		if weight.given == nil {
			missing = append(missing, weight.key)
			continue
		}
		*weight.to = *weight.given
	}
	given := make(map[string]float64, len(b.Custom))
	for _, c := range b.Custom {
		if _, twice := given[c.Name]; twice {
			return nil, badRequest("custom: %s is there twice", quoted(c.Name))
		}
		given[c.Name] = c.Weight
	}
	for i := range next.Custom {
		value, ok := given[next.Custom[i].Name]
		if !ok {
			missing = append(missing, "custom "+next.Custom[i].Name)
			continue
		}
		next.Custom[i].Weight = value
		delete(given, next.Custom[i].Name)
	}
	for name := range given {
		return nil, badRequest("custom: no scorer is called %s", quoted(name))
	}
	if len(missing) > 0 {
		return nil, badRequest("weights are missing: %s", strings.Join(missing, ", ")).hint("send what GET /v1/config/weights gives, with the changes")
	}
	return next, b.limits(next)
}

func (b *weightsBody) limits(next *score.Weights) (err error) {
	if b.MaxQueue != nil {
		next.MaxQueue = *b.MaxQueue
	}
	if b.MaxUtilization != nil {
		next.MaxUtilization = *b.MaxUtilization
	}
	if b.Saturation != nil {
		if next.Saturation, err = score.ParseSaturation(*b.Saturation); err != nil {
			return badRequest("%v", err)
		}
	}
	return nil
}

// readBody decodes a body of one JSON document without unknown fields.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fail(http.StatusRequestEntityTooLarge, CodeTooLarge, fmt.Sprintf("the body is longer than %d bytes", maxBody))
	}
	if err != nil {
		return badRequest("the body broke off")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return badRequest("the body: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return badRequest("the body: more than one JSON document")
	}
	return nil
}

func (s *server) level(w http.ResponseWriter, r *http.Request) error {
	return answer(w, r, LogLevel{document("LogLevel"), telemetry.LevelName(s.Level.Level())})
}

func (s *server) putLevel(w http.ResponseWriter, r *http.Request) error {
	if err := s.writable(); err != nil {
		return err
	}
	var body LogLevel
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	level, err := telemetry.ParseLevel(body.Level)
	if err != nil {
		return badRequest("level: %v", err)
	}
	old := s.Level.Level()
	s.Level.Set(level)
	// At a level that is seen under the new one.
	s.Logger.LogAttrs(r.Context(), max(level, slog.LevelInfo), "log level changed",
		slog.String(logkey.LogLevel, telemetry.LevelName(level)), slog.String(logkey.Previous, telemetry.LevelName(old)))
	return s.level(w, r)
}
