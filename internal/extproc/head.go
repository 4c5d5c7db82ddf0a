package extproc

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/steering"
)

// head is what is kept of a request's headers, and of what the gateway says
// beside them.
type head struct {
	id                   string
	idReplaced, idIsSet  bool // idIsSet: the request carries the ID already
	method, path, coding string
	length               int64    // of the body, as the headers say; −1 when they don't
	remove               []string // steering headers that the client sent
	headers              map[string][]string
	client               string
	model                string // that the route asks for in place of the body's

	bodiless string // why the body can't be looked at; "" when it can
	partial  bool   // more of the body may follow unseen

	subset     []string // endpoints that the gateway allows
	restricted bool     // it named some, or none
}

// text is a header's value, without the memory of the others: Envoy sends it raw.
func text(v *core.HeaderValue) string {
	if raw := v.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return strings.Clone(v.GetValue())
}

// read takes in the headers of a request, within the limits.
func (h *head) read(m *core.HeaderMap, cfg *Config) error {
	var given string
	h.length = -1
	for _, v := range m.GetHeaders() {
		switch key := v.GetKey(); key {
		case ":method":
			h.method = text(v)
		case ":path":
			h.path, _, _ = strings.Cut(text(v), "?")
		case steering.RequestID:
			if given == "" {
				given = text(v)
			}
		case "content-encoding":
			h.coding = joined(h.coding, text(v))
		case "content-length":
			h.length = lengthIn(text(v))
		default:
			h.other(key, v, cfg)
		}
	}
	h.id, h.idReplaced = picker.RequestID(given)
	h.idIsSet = h.id == given
	return checkHeaders(m, cfg)
}

func (h *head) other(key string, v *core.HeaderValue, cfg *Config) {
	if isSteering(key) {
		h.remove = append(h.remove, strings.Clone(key))
	}
	switch {
	case key == steering.Model, key == steering.OldModel && h.model == "":
		h.model = text(v)
	}
	for _, name := range cfg.AllowHeaders {
		if strings.EqualFold(name, key) {
			if h.headers == nil {
				h.headers = make(map[string][]string, len(cfg.AllowHeaders))
			}
			canonical := http.CanonicalHeaderKey(key)
			h.headers[canonical] = append(h.headers[canonical], text(v))
		}
	}
}

// isSteering leaves Envoy's own headers alone: it drops those of clients, and
// refuses to have others changed.
func isSteering(key string) bool {
	return len(key) > 0 && key[0]|0x20 == 'x' && !strings.HasPrefix(key, "x-envoy-") && steering.Is(key)
}

// lengthIn is a Content-Length; −1 for what is none.
func lengthIn(value string) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

func joined(before, value string) string {
	if before == "" {
		return value
	}
	return before + "," + value
}

func checkHeaders(m *core.HeaderMap, cfg *Config) error {
	size, n := 0, len(m.GetHeaders())
	for _, v := range m.GetHeaders() {
		size += len(v.GetKey()) + len(v.GetRawValue()) + len(v.GetValue())
	}
	if n <= cfg.MaxHeaders && size <= cfg.MaxHeaderBytes {
		return nil
	}
	return &request.Error{
		Status: http.StatusRequestHeaderFieldsTooLarge, Code: "headers_too_large",
		Message: fmt.Sprintf("%d headers of %d bytes in all; at most %d and %d are taken", n, size, cfg.MaxHeaders, cfg.MaxHeaderBytes),
	}
}

// Where gateways put what belongs to the protocol.
const (
	namespaceLB     = "envoy.lb"
	namespaceSubset = "envoy.lb.subset_hint"
	attributesKey   = "envoy.filters.http.ext_proc"
)

// The bounds of a subset hint: endpoints, and bytes of one, which no pod's address
// exceeds.
const (
	maxSubset  = 1 << 16
	maxAddress = 300
)

// hint reads the subset of endpoints to which the gateway restricts the pick. It
// may stand on any message of a request; the first one counts.
func (h *head) hint(m *core.Metadata) {
	if h.restricted {
		return
	}
	v, ok := m.GetFilterMetadata()[namespaceSubset].GetFields()[steering.Subset]
	if !ok {
		return
	}
	h.restricted, h.subset = true, []string{}
	switch v := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		h.allow(v.StringValue)
	case *structpb.Value_ListValue:
		for _, e := range v.ListValue.GetValues() {
			h.allow(e.GetStringValue())
		}
	}
}

// allow adds the endpoints of a comma list.
func (h *head) allow(list string) {
	for address := range strings.SplitSeq(list, ",") {
		if address = strings.TrimSpace(address); address != "" && len(address) <= maxAddress && len(h.subset) < maxSubset {
			h.subset = append(h.subset, address)
		}
	}
}
