package extproc

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/telemetry"
	"github.com/eppctl/eppctl/score"
)

// tattler is a custom scorer that panics with all that it was told.
type tattler struct{}

func (tattler) Score(_ context.Context, r *score.InferenceRequest, _ *score.PodState, _ *score.Summary) score.Result {
	panic(fmt.Sprintf("%s %v", request.AppendText(nil, r.Tokens...), r.Headers))
}

// case P5: nothing of a request stands anywhere but in what goes on to the pod
// and back, whatever comes of it.
func TestSecrets(t *testing.T) {
	secrets := []string{"PromptSecret4711", "KeySecret4712", "CookieSecret4713", "SaltSecret4714", "TenantSecret4715", "QuerySecret4716", "AnswerSecret4717", "TrailerSecret4718"}
	prompt, key, cookie, salt, tenant, query, answer, trailer := secrets[0], secrets[1], secrets[2], secrets[3], secrets[4], secrets[5], secrets[6], secrets[7]
	for _, level := range []slog.Level{slog.LevelError, slog.LevelInfo, slog.LevelDebug, slog.LevelDebug - 4} {
		t.Run(level.String(), func(t *testing.T) {
			metrics := telemetry.NewMetrics(telemetry.Sources{})
			bubble(t, func(set *setup) {
				logger := slog.New(slog.NewJSONHandler(set.log, &slog.HandlerOptions{Level: level}))
				set.server.Logger, set.picker.Logger = logger, logger
				set.server.AllowHeaders = []string{"x-tenant"}
				set.picker.Observer = telemetry.NewObserver(metrics, logger, set.ring.Render)
				set.picker.Weights.Cache, set.picker.Weights.Custom = .5, []score.CustomWeight{{Name: "tattler", Weight: .1}}
				set.picker.Scorers = []picker.Custom{{Name: "tattler", Scorer: tattler{}}}
				set.wrap = func(p *picker.Picker) Picker {
					return pickerFunc(func(ctx context.Context, c *picker.Call) (*picker.Pick, error) {
						if c.ID == "panic" {
							panic(fmt.Sprintf("%s %v", request.AppendText(nil, c.Request.Tokens...), c.Headers))
						}
						return p.Pick(ctx, c)
					})
				}
			}, func(t *testing.T, s *site) {
				head := func(id string) *message {
					m := post("x-request-id", id, "authorization", "Bearer "+key, "cookie", cookie, "x-tenant", tenant, "x-other", tenant, "x-prefiller-url", key, "Proxy-Authorization", key)
					for _, h := range m.GetRequestHeaders().GetHeaders().GetHeaders() {
						if h.GetKey() == ":path" {
							h.RawValue = []byte(chatPath + "?key=" + query)
						}
					}
					return m
				}
				body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"cache_salt":%q,"user":%q}`, strings.Repeat(prompt+" ", 40), salt, key)
				trailers := requestTrailers("x-t", trailer, "x-llm-d-x", trailer)
				told := &strings.Builder{}
				for id, ms := range map[string][]*message{
					"good":     {head("good"), requestBody(body, false), trailers, jsonHead("set-cookie", cookie, "x-gateway-destination-endpoint-scores", key), responseBody(`{"text":"`+answer+`","usage":{"prompt_tokens":"`+answer+`"}}`, false), responseTrailers("x-t", trailer)},
					"error":    {head("error"), requestBody(body, true), responseHeaders(false, ":status", "500", "content-type", "application/json"), responseBody(answer, true)},
					"panic":    {head("panic"), requestBody(body, true)},
					"bad":      {head("bad"), requestBody(body+"}"+prompt, true)},
					"field":    {head("field"), requestBody(strings.Replace(body, `"messages":[{`, `"messages":[7,{`, 1), true)},
					"gzip":     {head("gzip"), requestBody(prompt, true)},
					"long":     {head("long"), requestBody(strings.Repeat(prompt, 1<<20)+body, true)},
					"mismatch": {head("mismatch"), requestBody(body, true), requestBody(body, false)},
					"half":     {head("half"), requestBody(body[:300], false)},
				} {
					f := s.open(t, fullDuplex, fullDuplex)
					f.broken = id == "mismatch"
					f.send(ms...).leaveOrDone()
					fmt.Fprintf(told, "%v %v %v\n", f.immediate, f.metadata, f.err)
				}
				synctest.Wait()
				s.forget()
				records, err := json.Marshal(s.records(t))
				if err != nil {
					t.Fatal(err)
				}
				page := httptest.NewRecorder()
				metrics.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
				if st := s.Stats(); st.Panics != 1 || len(s.records(t)) != 3 || page.Body.Len() < 1000 || s.log.String() == "" {
					t.Errorf("%+v, %d records, %d bytes of metrics, log %q: want some of each", st, len(s.records(t)), page.Body.Len(), s.log)
				}
				for place, text := range map[string]string{
					"log": s.log.String(), "records": string(records), "metrics": page.Body.String(), "replies": told.String(), "stats": fmt.Sprintf("%+v", s.Stats()),
				} {
					for _, secret := range secrets {
						for _, spelling := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))[:12], hex.EncodeToString([]byte(secret))} {
							if strings.Contains(text, spelling) {
								t.Errorf("%s stands in the %s: %.2000s", spelling, place, text)
							}
						}
					}
				}
				s.settled(t)
			})
		})
	}
}
