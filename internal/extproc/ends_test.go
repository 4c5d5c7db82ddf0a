package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/score"
)

// case P2: however a stream ends, the ledger ends at 0, and the record says what
// was seen of it.
func TestEndsOfStreams(t *testing.T) {
	asked := []*message{post(), requestBody(chatBody, true)}
	type end int
	const (
		cancelled end = iota // as Envoy ends what is complete, and what it gives up
		left                 // as Envoy ends when the client went away
	)
	for _, tt := range []struct {
		name string
		ms   []*message
		how  end
		want explain.Outcome // without times
		none bool            // no record
	}{
		{"left before anything", nil, left, explain.Outcome{}, true},
		{"cancelled before anything", nil, cancelled, explain.Outcome{}, true},
		{"left after the headers", []*message{post()}, left, explain.Outcome{}, true},
		{"left in the middle of the body", []*message{post(), requestBody(chatBody[:9], false)}, left, explain.Outcome{}, true},
		{"cancelled in the middle of the body", []*message{post(), requestBody(chatBody[:9], false)}, cancelled, explain.Outcome{}, true},
		{"left before the answer", asked, left, explain.Outcome{State: explain.OutcomeDone, Error: picker.ErrorClientGone}, false},
		{"no answer is sent", asked, cancelled, explain.Outcome{State: explain.OutcomeUnknown, Detail: unseenResponse}, false},
		{
			"left in the answer", append(asked, from(podAddress(0), sseHead()), responseBody(sseAnswer, false)), left,
			explain.Outcome{State: explain.OutcomeDone, Status: 200, Error: picker.ErrorAborted, ServedEndpoint: podAddress(0)},
			false,
		},
		{
			"broken off in the answer", append(asked, from(podAddress(0), sseHead()), responseBody(sseAnswer, false)), cancelled,
			explain.Outcome{State: explain.OutcomeDone, Status: 200, Error: picker.ErrorAborted, ServedEndpoint: podAddress(0)},
			false,
		},
		{
			"left after the answer", append(asked, from(podAddress(0), sseHead()), responseBody(sseAnswer, true)), left,
			explain.Outcome{State: explain.OutcomeDone, Status: 200, ServedEndpoint: podAddress(0)},
			false,
		},
		{
			"cancelled after the answer", append(asked, from(podAddress(0), sseHead()), responseBody(sseAnswer, true)), cancelled,
			explain.Outcome{State: explain.OutcomeDone, Status: 200, ServedEndpoint: podAddress(0)},
			false,
		},
		{
			"cancelled after trailers", append(asked, from(podAddress(0), sseHead()), responseBody(sseAnswer, false), responseTrailers()), cancelled,
			explain.Outcome{State: explain.OutcomeDone, Status: 200, ServedEndpoint: podAddress(0)},
			false,
		},
		{
			"cancelled after headers that are all", append(asked, from(podAddress(0), responseHeaders(true, ":status", "500"))), cancelled,
			explain.Outcome{State: explain.OutcomeDone, Status: 500, Error: picker.ErrorUpstreamStatus, ServedEndpoint: podAddress(0)},
			false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *site) {
				f := s.open(t, fullDuplex, fullDuplex)
				f.send(tt.ms...)
				if tt.how == left {
					f.leave()
				} else {
					f.done()
					synctest.Wait()
				}
				if tt.want.State == explain.OutcomeUnknown {
					if n := s.Stats().Waiting; n != 1 || s.picker.Open() != 1 {
						t.Errorf("%d wait, %d are open, want the one", n, s.picker.Open())
					}
					s.abandon(t)
				}
				s.settled(t)
				if tt.none {
					if n := len(s.records(t)); n > 0 {
						t.Errorf("%d records", n)
					}
					return
				}
				o := s.record(t).Outcome
				got := explain.Outcome{State: o.State, Detail: o.Detail, Status: o.Status, Error: o.Error, ServedEndpoint: o.ServedEndpoint}
				if got != tt.want {
					t.Errorf("recorded as %+v, want %+v", got, tt.want)
				}
				if (o.DurationSeconds == nil) != (tt.want.State == explain.OutcomeUnknown) {
					t.Errorf("duration %v", o.DurationSeconds)
				}
			})
		})
	}
}

// All of a body is there, but not yet its end, when the client goes: whatever was
// answered by then, the stream must not end well.
func TestLeftBeforeTheEndOfTheBody(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex)
		f.send(post("content-length", strconv.Itoa(len(chatBody))), requestBody(chatBody, false)).leave()
		s.settled(t)
	})
}

// A picker that panics costs its own stream, and its words go nowhere.
func TestPanicOfThePicker(t *testing.T) {
	const secret = "PromptSecret4711"
	for name, value := range map[string]any{
		"text": secret, "error": errors.New(secret), "runtime": nil,
	} {
		for _, m := range []mode{fullDuplex, buffered, streamed} {
			t.Run(name+" "+m.String(), func(t *testing.T) {
				bubble(t, func(set *setup) {
					set.wrap = func(p *picker.Picker) Picker {
						return pickerFunc(func(ctx context.Context, c *picker.Call) (*picker.Pick, error) {
							if c.ID != "panic" {
								return p.Pick(ctx, c)
							}
							if value == nil {
								_ = []int{}[len(c.ID)]
							}
							panic(value)
						})
					}
				}, func(t *testing.T, s *site) {
					other := s.open(t, fullDuplex, fullDuplex)
					other.send(post(), requestBody(chatBody[:9], false))
					f := s.open(t, m, m)
					f.send(post("x-request-id", "panic"))
					if m != streamed {
						f.send(requestBody(chatBody, true))
					}
					if r := f.refused(); r.status != 500 || r.code != "internal_error" || strings.Contains(f.immediate.String(), secret) {
						t.Errorf("answered %v", f.immediate)
					}
					if err := f.ends(); status.Code(err) != codes.Internal || strings.Contains(err.Error(), secret) {
						t.Errorf("ended with %v", err)
					}
					if log := s.log.String(); strings.Contains(log, secret) || strings.Contains(log, "hell") || strings.Contains(log, "104 101 108 108") || !strings.Contains(log, "panic in a stream") || !strings.Contains(log, `"requestID":"panic"`) {
						t.Errorf("log %s", log)
					}
					other.send(requestBody(chatBody[9:], true)).send(jsonHead(), responseBody("{}", true)).done()
					if n := s.Stats().Panics; n != 1 {
						t.Errorf("%d panics are counted", n)
					}
					s.settled(t)
				})
			})
		}
	}
}

// breaking is an observer that panics at the end of a request.
type breaking struct{ picker.Observer }

func (breaking) Picked(*record.Entry)                          {}
func (breaking) Completed(*picker.Pick, *record.Outcome, bool) { panic("at the end") }

// A panic while the request is ended costs neither the process nor a place among
// the streams.
func TestPanicAtTheEnd(t *testing.T) {
	bubble(t, func(set *setup) { set.picker.Observer = breaking{} }, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex)
		f.send(post(), requestBody(chatBody, true)).leave()
		if status.Code(f.err) != codes.Internal {
			t.Errorf("ended with %v", f.err)
		}
		if st := s.Stats(); st.Streams != 0 || st.Panics != 1 {
			t.Errorf("%d streams are open and %d panics counted, want 0 and 1", st.Streams, st.Panics)
		}
	})
}

type pickerFunc func(context.Context, *picker.Call) (*picker.Pick, error)

func (f pickerFunc) Pick(ctx context.Context, c *picker.Call) (*picker.Pick, error) { return f(ctx, c) }

// An error of the picker that the client must not know is a plain 500.
func TestErrorOfThePicker(t *testing.T) {
	bubble(t, func(set *setup) {
		set.wrap = func(*picker.Picker) Picker {
			return pickerFunc(func(context.Context, *picker.Call) (*picker.Pick, error) { return nil, io.ErrUnexpectedEOF })
		}
	}, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex).send(get())
		if r := f.refused(); r.status != 500 || strings.Contains(f.immediate.String(), "EOF") {
			t.Errorf("answered %v", f.immediate)
		}
		f.done()
		s.settled(t)
	})
}

// A scorer that hangs costs its factor and nothing else.
func TestScorerThatHangs(t *testing.T) {
	release := make(chan struct{})
	bubble(t, func(set *setup) {
		set.picker.Weights.Cache, set.picker.Weights.Custom = .1, []score.CustomWeight{{Name: "slow", Weight: .5}}
		set.picker.Scorers = []picker.Custom{{Name: "slow", Scorer: scorerFunc(func() score.Result {
			<-release
			return score.Result{}
		})}}
		release = make(chan struct{})
	}, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex)
		f.push(post(), requestBody(chatBody, true))
		time.Sleep(100 * time.Millisecond) // far beyond the scorers' deadline
		f.send()
		if to, agreed := f.destination(); to != podAddress(0) || !agreed {
			t.Errorf("sent to %q: %v", to, f.sequence)
		}
		f.send(jsonHead(), responseBody("{}", true)).done()
		s.settled(t)
		close(release)
	})
}

type scorerFunc func() score.Result

func (f scorerFunc) Score(context.Context, *score.InferenceRequest, *score.PodState, *score.Summary) score.Result {
	return f()
}

// The client goes away while the pod is being chosen: the choice reaches nobody.
func TestClientGoneWhilePicking(t *testing.T) {
	gone := make(chan struct{})
	bubble(t, func(set *setup) {
		gone = make(chan struct{})
		set.wrap = func(p *picker.Picker) Picker {
			return pickerFunc(func(ctx context.Context, c *picker.Call) (*picker.Pick, error) {
				<-gone
				return p.Pick(context.WithoutCancel(ctx), c)
			})
		}
	}, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex)
		f.push(post(), requestBody(chatBody, true))
		synctest.Wait()
		f.done()
		synctest.Wait()
		close(gone)
		synctest.Wait()
		if o := s.record(t).Outcome; o.State != explain.OutcomeDone || o.Error != picker.ErrorAborted {
			t.Errorf("recorded as %+v, want aborted", o)
		}
		s.settled(t)
	})
}

// A reservation waits for the answer's headers, follows it to the pod that gave
// it, and ends with it, though the stream may stay.
func TestReservation(t *testing.T) {
	bubble(t, func(set *setup) { set.server.Fallbacks = 1 }, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex)
		for _, step := range []struct {
			ms   []*message
			want string // in flight/pending
		}{
			{[]*message{post(), requestBody(chatBody, true)}, "[1/1 0/0 0/0]"},
			{[]*message{from(podAddress(1), sseHead())}, "[0/0 1/0 0/0]"},
			{[]*message{responseBody("", true)}, "[0/0 0/0 0/0]"},
		} {
			f.send(step.ms...)
			var books []string
			for _, v := range s.pool.Views() {
				books = append(books, fmt.Sprintf("%d/%d", v.State.InFlight, v.State.Pending))
			}
			if got := fmt.Sprint(books); got != step.want {
				t.Errorf("in flight/pending %s after %v, want %s", got, f.sequence, step.want)
			}
		}
		f.done()
	})
}

// case P2: many at once, each ending in its own way.
func TestManyStreamsAtOnce(t *testing.T) {
	bubble(t, aliased, func(t *testing.T, s *site) {
		const n = 60
		open := make([]*front, n)
		for i := range open {
			open[i] = s.open(t, fullDuplex, fullDuplex)
			open[i].send(post(), requestBody(fmt.Sprintf(oddBody, "prod"), i%5 > 0))
		}
		if got := s.pool.InFlight(); got != n-n/5 {
			t.Errorf("%d in flight, want %d", got, n-n/5)
		}
		for i, f := range open {
			switch i % 5 {
			case 0:
				f.leave()
			case 1:
				f.send(jsonHead(), responseBody(`{"model":"org/b`, false)).leave()
			case 2:
				f.send(jsonHead(), responseBody(`{"model":"org/b`, false)).done()
			case 3:
				f.send(from(podAddress(1), jsonHead()), responseBody(`{}`, true)).done()
			case 4:
				f.send(told(responseHeaders(true, ":status", "503"), map[string]any{"response.code": 503})).done()
			}
		}
		synctest.Wait()
		s.settled(t)
		errs := map[string]int{}
		for _, r := range s.records(t) {
			errs[r.Outcome.Error]++
		}
		if fmt.Sprint(errs) != fmt.Sprint(map[string]int{"": 12, picker.ErrorAborted: 24, picker.ErrorGatewayReply: 12}) {
			t.Errorf("ended as %v", errs)
		}
	})
}
