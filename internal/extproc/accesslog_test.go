package extproc

import (
	"cmp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	data "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslog "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/steering"
)

// accessLog is a gateway's log stream.
func (s *site) accessLog(tb testing.TB) accesslog.AccessLogService_StreamAccessLogsClient {
	tb.Helper()
	log, err := accesslog.NewAccessLogServiceClient(s.conn).StreamAccessLogs(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	synctest.Wait()
	return log
}

func write(tb testing.TB, log accesslog.AccessLogService_StreamAccessLogsClient, entries ...*data.HTTPAccessLogEntry) {
	tb.Helper()
	if err := log.Send(&accesslog.StreamAccessLogsMessage{LogEntries: &accesslog.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &accesslog.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: entries},
	}}); err != nil {
		tb.Fatal(err)
	}
	synctest.Wait()
}

// entryOf is the last word of the log on a decision that was served.
func entryOf(decision string, change func(*data.HTTPAccessLogEntry)) *data.HTTPAccessLogEntry {
	e := &data.HTTPAccessLogEntry{
		CommonProperties: &data.AccessLogCommon{
			Metadata: metadata(namespaceLB, decisionKey, decision),
			UpstreamRemoteAddress: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
				Address: "10.0.0.1", PortSpecifier: &core.SocketAddress_PortValue{PortValue: 8000},
			}}},
			UpstreamRequestAttemptCount: 1, ResponseFlags: &data.ResponseFlags{},
		},
		Response: &data.HTTPResponseProperties{ResponseCode: wrapperspb.UInt32(200), ResponseCodeDetails: "via_upstream"},
	}
	if change != nil {
		change(e)
	}
	return e
}

// decision is the ID that the gateway logs.
func (f *front) decision() string {
	return f.metadata.GetFields()[namespaceLB].GetStructValue().GetFields()[decisionKey].GetStringValue()
}

func TestAccessLogTellsTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*data.HTTPAccessLogEntry)
		want   explain.Outcome
	}{
		{"all went well", nil, explain.Outcome{Status: 200, ServedEndpoint: podAddress(0)}},
		{
			"another endpoint, at the second attempt",
			func(e *data.HTTPAccessLogEntry) {
				e.CommonProperties.Metadata.FilterMetadata[namespaceLB].Fields[steering.Served] = metadata("n", "k", podAddress(1)).FilterMetadata["n"].Fields["k"]
				e.CommonProperties.UpstreamRequestAttemptCount = 2
				e.CommonProperties.ResponseFlags.UpstreamConnectionFailure = true
			},
			explain.Outcome{Status: 200, ServedEndpoint: podAddress(1), Attempts: new(2), Flags: "UF"},
		},
		{
			"an engine's error",
			func(e *data.HTTPAccessLogEntry) { e.Response.ResponseCode.Value = 500 },
			explain.Outcome{Status: 500, Error: picker.ErrorUpstreamStatus, ServedEndpoint: podAddress(0)},
		},
		{
			"the gateway's own",
			func(e *data.HTTPAccessLogEntry) {
				e.CommonProperties.UpstreamRemoteAddress, e.Response.ResponseCode.Value, e.Response.ResponseCodeDetails = nil, 503, "no_healthy_upstream"
				e.CommonProperties.ResponseFlags.NoHealthyUpstream = true
			},
			explain.Outcome{Status: 503, Error: picker.ErrorGatewayReply, Flags: "UH", CodeDetails: "no_healthy_upstream"},
		},
		{
			"the client went away",
			func(e *data.HTTPAccessLogEntry) {
				e.CommonProperties.ResponseFlags.DownstreamConnectionTermination = true
				e.Response.ResponseCode = nil
			},
			explain.Outcome{Error: picker.ErrorClientGone, ServedEndpoint: podAddress(0), Flags: "DC"},
		},
		{
			"the client reset its stream",
			func(e *data.HTTPAccessLogEntry) { e.CommonProperties.ResponseFlags.DownstreamRemoteReset = true },
			explain.Outcome{Status: 200, Error: picker.ErrorClientGone, ServedEndpoint: podAddress(0), Flags: "DR"},
		},
		{
			"the pod broke off",
			func(e *data.HTTPAccessLogEntry) { e.CommonProperties.ResponseFlags.UpstreamRemoteReset = true },
			explain.Outcome{Status: 200, Error: picker.ErrorUpstreamClosed, ServedEndpoint: podAddress(0), Flags: "UR"},
		},
		{
			"the pod closed its connection",
			func(e *data.HTTPAccessLogEntry) {
				e.CommonProperties.ResponseFlags.UpstreamConnectionTermination = true
			},
			explain.Outcome{Status: 200, Error: picker.ErrorUpstreamClosed, ServedEndpoint: podAddress(0), Flags: "UC"},
		},
	} {
		for _, early := range []bool{false, true} {
			for _, response := range []bool{false, true} { // are its headers sent
				name := tt.name + map[bool]string{true: ", early"}[early] + map[bool]string{true: ", headers seen"}[response]
				t.Run(name, func(t *testing.T) {
					bubble(t, nil, func(t *testing.T, s *site) {
						log := s.accessLog(t)
						f := s.open(t, fullDuplex, none)
						f.send(post(), requestBody(chatBody, true))
						if early {
							write(t, log, entryOf(f.decision(), tt.change))
						}
						if response {
							f.send(jsonHead())
						}
						f.done()
						synctest.Wait()
						if n := s.picker.Open(); early != (n == 0) {
							t.Errorf("%d picks are open", n)
						}
						if !early {
							write(t, log, entryOf(f.decision(), tt.change))
						}
						s.settled(t)
						want := tt.want
						want.State = explain.OutcomeDone
						want.Attempts = cmp.Or(want.Attempts, new(1))
						want.CodeDetails = cmp.Or(want.CodeDetails, "via_upstream")
						if response {
							want.ServedEndpoint = podAddress(0) // who served was told by the headers already
						}
						got := s.record(t).Outcome
						got.DurationSeconds, got.PredictedCached = nil, nil
						if diff := gocmp.Diff(want, got); diff != "" {
							t.Error(diff)
						}
						if st := s.Stats(); st.AccessLogs != 1 || st.Unknown != 0 {
							t.Errorf("counted as %+v", st)
						}
						if n := len(s.waiting.early); n > 0 {
							t.Errorf("%d entries are kept", n)
						}
						if _, err := log.CloseAndRecv(); err != nil {
							t.Errorf("the log's stream ends with %v", err)
						}
					})
				})
			}
		}
	}
}

// Entries that are not the last word on a decision of ours change nothing.
func TestAccessLogOfOthers(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *site) {
		log := s.accessLog(t)
		f := s.open(t, fullDuplex, none)
		f.send(post(), requestBody(chatBody, true)).done()
		write(
			t, log, nil, &data.HTTPAccessLogEntry{}, entryOf("", nil), entryOf(strings.Repeat("x", 37), nil), entryOf("another", nil),
			entryOf(f.decision(), func(e *data.HTTPAccessLogEntry) {
				e.CommonProperties.AccessLogType = data.AccessLogType_DownstreamPeriodic
			}),
			entryOf(f.decision(), func(e *data.HTTPAccessLogEntry) { e.CommonProperties.AccessLogType = data.AccessLogType_UpstreamEnd }),
			entryOf(f.decision(), func(e *data.HTTPAccessLogEntry) {
				e.CommonProperties.Metadata = metadata("other", decisionKey, f.decision())
			}),
		)
		if n := s.picker.Open(); n != 1 {
			t.Errorf("%d picks are open, want the one", n)
		}
		last := entryOf(f.decision(), func(e *data.HTTPAccessLogEntry) { e.CommonProperties.AccessLogType = data.AccessLogType_DownstreamEnd })
		write(t, log, last, last)
		s.settled(t)
		if n := s.Stats().AccessLogs; n != 1 {
			t.Errorf("%d ends are told", n)
		}
	})
}

// Entries without a stream are forgotten, the oldest first, and long texts are cut.
func TestAccessLogIsBounded(t *testing.T) {
	s := newSite(t, nil)
	s.entry(entryOf("first", func(e *data.HTTPAccessLogEntry) {
		e.Response.ResponseCodeDetails = strings.Repeat("x", 1<<20)
		e.CommonProperties.UpstreamRemoteAddress.GetSocketAddress().Address = strings.Repeat("x", 1<<20)
	}))
	if e, ok := s.waiting.early["first"]; !ok || len(e.Details)+len(e.ServedEndpoint) > 2*maxTold {
		t.Errorf("%d bytes of details and %d of an address are kept", len(e.Details), len(e.ServedEndpoint))
	}
	for i := range 5000 {
		s.entry(entryOf(strings.Repeat("x", 30)+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676)), nil))
	}
	if n := len(s.waiting.early); n != maxEarly || len(s.waiting.order) > maxEarly {
		t.Errorf("%d entries are kept in the order of %d, want %d", n, len(s.waiting.order), maxEarly)
	}
}

// Whose end nobody tells is given up, with what the response's headers said.
func TestEndTimeout(t *testing.T) {
	for _, tt := range []struct {
		name   string
		log    bool
		head   *message
		after  time.Duration
		held   int // in flight until then
		detail string
		status int
		served string
	}{
		{"no log, no headers", false, nil, 7 * time.Minute, 1, unseenResponse, 0, ""},
		{"a log that says nothing, no headers", true, nil, 7 * time.Minute, 1, unseenResponse, 0, ""},
		{"no log, headers", false, from(podAddress(1), jsonHead()), firstLog, 0, unseenBody, 200, podAddress(1)},
		{"a log that says nothing, headers", true, from(podAddress(1), jsonHead()), 7 * time.Minute, 1, unseenBody, 200, podAddress(1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(set *setup) { set.server.EndTimeout = 7 * time.Minute }, func(t *testing.T, s *site) {
				if tt.log {
					s.accessLog(t)
				}
				f := s.open(t, fullDuplex, none)
				f.send(post(), requestBody(chatBody, true))
				if tt.head != nil {
					f.send(tt.head)
				}
				f.done()
				synctest.Wait()
				time.Sleep(tt.after - time.Second)
				if s.Stats().Waiting != 1 || s.picker.Open() != tt.held || s.pool.InFlight() != tt.held {
					t.Errorf("%d wait, %d are open, %d in flight before the time", s.Stats().Waiting, s.picker.Open(), s.pool.InFlight())
				}
				time.Sleep(2 * time.Second)
				s.settled(t)
				o := s.record(t).Outcome
				if o.State != explain.OutcomeUnknown || o.Detail != tt.detail || o.Status != tt.status || o.ServedEndpoint != tt.served || o.Error != "" || o.DurationSeconds != nil {
					t.Errorf("recorded as %+v", o)
				}
				if n := s.Stats().Unknown; n != 1 {
					t.Errorf("%d unknown ends are counted", n)
				}
			})
		})
	}
}

// Envoy opens its log with the first entry: that one is not missed.
func TestFirstAccessLog(t *testing.T) {
	for _, status := range []uint32{200, 500} {
		bubble(t, nil, func(t *testing.T, s *site) {
			f := s.open(t, fullDuplex, none)
			f.send(post(), requestBody(chatBody, true)).send(jsonHead()).done()
			synctest.Wait()
			if n := s.pool.InFlight(); n != 0 {
				t.Errorf("%d in flight, though the pod answers", n)
			}
			time.Sleep(firstLog - time.Second)
			write(t, s.accessLog(t), entryOf(f.decision(), func(e *data.HTTPAccessLogEntry) { e.Response.ResponseCode.Value = status }))
			s.settled(t)
			if o := s.record(t).Outcome; o.State != explain.OutcomeDone || o.Status != int(status) || (o.Error == "") != (status == 200) || o.ServedEndpoint != podAddress(0) {
				t.Errorf("recorded as %+v", o)
			}
		})
	}
}

// Draining ends the logs' streams, which gateways keep open for ever, and leaves
// requests alone.
func TestDrain(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *site) {
		log := s.accessLog(t)
		f := s.open(t, fullDuplex, fullDuplex)
		f.send(post(), requestBody(chatBody[:9], false))
		s.Drain()
		synctest.Wait() // before the client ends it
		if _, err := log.CloseAndRecv(); err == nil {
			t.Error("the log's stream ended well")
		}
		f.send(requestBody(chatBody[9:], true)).send(jsonHead(), responseBody("{}", true)).done()
		s.settled(t)
	})
}

// Closing gives up on all whose end has not been told, and on those that come
// after.
func TestClose(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *site) {
		f := s.open(t, fullDuplex, fullDuplex)
		f.send(post(), requestBody(chatBody, true)).done()
		late := s.open(t, fullDuplex, fullDuplex)
		late.send(post(), requestBody(chatBody, true))
		s.Close()
		if n := s.picker.Open(); n != 1 {
			t.Errorf("%d are open, want the one whose stream is", n)
		}
		late.done()
		synctest.Wait()
		s.settled(t)
		if n := s.Stats().Unknown; n != 2 {
			t.Errorf("%d unknown ends are counted, want 2", n)
		}
	})
}

// The names of flags in both of Envoy's spellings: a number's bits, and the
// fields of an entry.
func TestResponseFlags(t *testing.T) {
	if got, want := flagNames(0), ""; got != want {
		t.Errorf("no bits are %q", got)
	}
	if got, want := flagNames(1|1<<1|1<<29|1<<60), "LH,UH,UDO"; got != want {
		t.Errorf("bits are %q, want %q", got, want)
	}
	all := &data.ResponseFlags{
		FailedLocalHealthcheck: true, NoHealthyUpstream: true, UpstreamRequestTimeout: true, LocalReset: true, UpstreamRemoteReset: true,
		UpstreamConnectionFailure: true, UpstreamConnectionTermination: true, UpstreamOverflow: true, NoRouteFound: true, DelayInjected: true,
		FaultInjected: true, RateLimited: true, UnauthorizedDetails: &data.ResponseFlags_Unauthorized{}, RateLimitServiceError: true,
		DownstreamConnectionTermination: true, UpstreamRetryLimitExceeded: true, StreamIdleTimeout: true, InvalidEnvoyRequestHeaders: true,
		DownstreamProtocolError: true, UpstreamMaxStreamDurationReached: true, ResponseFromCacheFilter: true, NoFilterConfigFound: true,
		DurationTimeout: true, UpstreamProtocolError: true, NoClusterFound: true, OverloadManager: true, DnsResolutionFailure: true,
		DownstreamRemoteReset: true,
	}
	want := strings.Join(append(append([]string{}, flags[:27]...), "DR"), ",")
	if got := loggedFlags(all); got != want {
		t.Errorf("all flags are %q, want %q", got, want)
	}
	if got := loggedFlags(nil); got != "" {
		t.Errorf("no flags are %q", got)
	}
}
