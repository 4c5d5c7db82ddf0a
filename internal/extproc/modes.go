package extproc

import (
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

type mode = filter.ProcessingMode_BodySendMode

// The ways in which a gateway hands bodies over.
const (
	none            = filter.ProcessingMode_NONE
	streamed        = filter.ProcessingMode_STREAMED
	buffered        = filter.ProcessingMode_BUFFERED
	bufferedPartial = filter.ProcessingMode_BUFFERED_PARTIAL
	fullDuplex      = filter.ProcessingMode_FULL_DUPLEX_STREAMED
)

// modes are the body modes of one stream. A gateway that does not tell is taken
// for one that does as the protocol says.
type modes struct {
	told              bool
	request, response mode
}

func modesOf(c *extproc.ProtocolConfiguration) modes {
	if c == nil {
		return modes{request: fullDuplex, response: fullDuplex}
	}
	return modes{told: true, request: c.GetRequestBodyMode(), response: c.GetResponseBodyMode()}
}

// String describes the modes in logs.
func (m modes) String() string {
	if !m.told {
		return "not told"
	}
	return "request " + m.request.String() + ", response " + m.response.String()
}

// names are the modes for the record, "" when the gateway did not tell.
func (m modes) names() (request, response string) {
	if !m.told {
		return "", ""
	}
	return m.request.String(), m.response.String()
}
