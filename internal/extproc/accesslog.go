package extproc

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	data "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslog "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"

	"github.com/eppctl/eppctl/internal/picker"
)

// StreamAccessLogs implements Envoy's access log service. Entries tell how
// requests ended whose answers the gateway does not send here.
func (s *Server) StreamAccessLogs(stream accesslog.AccessLogService_StreamAccessLogsServer) (err error) {
	defer s.contain(&err)
	if cancel, ok := stream.Context().Value(cancelKey{}).(context.CancelCauseFunc); ok {
		defer context.AfterFunc(s.draining, func() { cancel(errDraining) })()
	}
	s.counts.logs.Add(1)
	defer s.counts.logs.Add(-1)
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return stream.SendAndClose(&accesslog.StreamAccessLogsResponse{})
		case err != nil:
			return err
		}
		for _, entry := range m.GetHttpLogs().GetLogEntry() {
			s.entry(entry)
		}
	}
}

var errDraining = errors.New("the picker is shutting down")

// Drain ends the streams of the access log service, which gateways keep open for
// as long as they can. It comes before the gRPC server's graceful stop.
func (s *Server) Drain() { s.drain() }

// entry takes one entry, if it is the last one of a request that was routed here.
func (s *Server) entry(e *data.HTTPAccessLogEntry) {
	common := e.GetCommonProperties()
	id := common.GetMetadata().GetFilterMetadata()[namespaceLB].GetFields()[decisionKey].GetStringValue()
	if id == "" || len(id) > maxDecisionID || !isEnd(common.GetAccessLogType()) {
		return
	}
	response := e.GetResponse()
	a := answered{
		status: int(response.GetResponseCode().GetValue()), served: servedIn(common.GetMetadata()),
		flags: loggedFlags(common.GetResponseFlags()), details: clip(response.GetResponseCodeDetails()),
	}
	if a.served == "" {
		a.served = clip(addressText(common.GetUpstreamRemoteAddress()))
	}
	if a.local = a.served == "" || ownReply(a.details); a.local {
		a.served = ""
	}
	end := picker.End{
		Status: a.status, ServedEndpoint: a.served, Attempts: int(common.GetUpstreamRequestAttemptCount()),
		Flags: a.flags, Details: a.details, Error: a.fault(),
		PromptTokens: -1, CachedTokens: -1, OutputTokens: -1,
	}
	switch f := common.GetResponseFlags(); {
	case f.GetDownstreamConnectionTermination(), f.GetDownstreamRemoteReset():
		end.Error = picker.ErrorClientGone
	case a.local:
	case f.GetUpstreamRemoteReset(), f.GetUpstreamConnectionTermination(), f.GetUpstreamProtocolError():
		end.Error = picker.ErrorUpstreamClosed
	}
	s.waiting.logged(id, end)
}

// isEnd leaves out the entries of single attempts, and those that are written
// while a request runs.
func isEnd(t data.AccessLogType) bool {
	return t == data.AccessLogType_DownstreamEnd || t == data.AccessLogType_NotSet
}

// maxDecisionID is the length of a UUID as text; others are not ours.
const maxDecisionID = 36

func addressText(a *core.Address) string {
	socket := a.GetSocketAddress()
	if socket == nil {
		return ""
	}
	return net.JoinHostPort(socket.GetAddress(), strconv.Itoa(int(socket.GetPortValue())))
}

// loggedFlags are the flags of an entry as the text log writes them.
func loggedFlags(f *data.ResponseFlags) string {
	var names []string
	for i, set := range []bool{
		f.GetFailedLocalHealthcheck(), f.GetNoHealthyUpstream(), f.GetUpstreamRequestTimeout(), f.GetLocalReset(),
		f.GetUpstreamRemoteReset(), f.GetUpstreamConnectionFailure(), f.GetUpstreamConnectionTermination(), f.GetUpstreamOverflow(),
		f.GetNoRouteFound(), f.GetDelayInjected(), f.GetFaultInjected(), f.GetRateLimited(), f.GetUnauthorizedDetails() != nil,
		f.GetRateLimitServiceError(), f.GetDownstreamConnectionTermination(), f.GetUpstreamRetryLimitExceeded(), f.GetStreamIdleTimeout(),
		f.GetInvalidEnvoyRequestHeaders(), f.GetDownstreamProtocolError(), f.GetUpstreamMaxStreamDurationReached(),
		f.GetResponseFromCacheFilter(), f.GetNoFilterConfigFound(), f.GetDurationTimeout(), f.GetUpstreamProtocolError(),
		f.GetNoClusterFound(), f.GetOverloadManager(), f.GetDnsResolutionFailure(), false, f.GetDownstreamRemoteReset(),
	} {
		if set {
			names = append(names, flags[i])
		}
	}
	return strings.Join(names, ",")
}
