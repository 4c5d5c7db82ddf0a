package extproc

import (
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/eppctl/eppctl/internal/steering"
)

// hear takes in what the gateway says of an answer: who gave it, at which
// attempt, with which flags.
func (a *answered) hear(m *extproc.ProcessingRequest) {
	a.served = servedIn(m.GetMetadataContext())
	attributes, told := m.GetAttributes()[attributesKey]
	if !told {
		return
	}
	fields := attributes.GetFields()
	if a.served == "" {
		a.served = clip(fields["upstream.address"].GetStringValue())
	}
	a.attempts = int(fields["upstream.request_attempt_count"].GetNumberValue())
	a.flags = flagNames(uint64(fields["response.flags"].GetNumberValue()))
	a.details = clip(fields["response.code_details"].GetStringValue())
	// What comes from a pod has its address; a gateway that sends no addresses
	// leaves it open. An address alone says only who was asked.
	_, coded := fields["response.code"]
	a.local = a.served == "" && coded || ownReply(a.details)
	if a.local {
		a.unreached, a.served = a.served, ""
	}
}

// ownReply reports whether Envoy's response code details say that the answer is
// its own (the section "Response Code Details" of its HTTP connection manager's
// documentation).
func ownReply(details string) bool {
	return details != "" && details != "via_upstream" &&
		!strings.HasPrefix(details, "upstream_reset_after_response_started") && !strings.HasPrefix(details, "downstream_")
}

// connectionFailed reports whether the details say that the endpoint could not be
// connected to.
func connectionFailed(details string) bool {
	return strings.HasPrefix(details, "upstream_reset_before_response_started") && strings.Contains(details, "connection_failure")
}

// servedIn is the endpoint that an override_host cluster says it used.
func servedIn(m *core.Metadata) string {
	return clip(m.GetFilterMetadata()[namespaceLB].GetFields()[steering.Served].GetStringValue())
}

// maxTold bounds, in bytes, what is kept of a text that a gateway tells.
const maxTold = 256

// clip is a text's beginning, without the memory of the rest.
func clip(text string) string {
	if len(text) <= maxTold {
		return text
	}
	return strings.Clone(text[:maxTold])
}

// flags are Envoy's response flags as its access log writes them, in the order
// of the bits of the attribute response.flags (envoy/stream_info/stream_info.h,
// CoreResponseFlag; the letters are from the access log's documentation).
var flags = [...]string{
	"LH", "UH", "UT", "LR", "UR", "UF", "UC", "UO", "NR", "DI", "FI", "RL", "UAEX", "RLSE", "DC", "URX", "SI", "IH", "DPE",
	"UMSDR", "RFCF", "NFCF", "DT", "UPE", "NC", "OM", "DF", "DO", "DR", "UDO",
}

func flagNames(bits uint64) string {
	var names []string
	for i, name := range flags {
		if bits&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}
