package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/eppctl/eppctl/internal/body"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/request"
	"github.com/eppctl/eppctl/internal/steering"
)

// Gateway is the handler. It is safe for concurrent use.
type Gateway struct {
	cfg      Config
	bodies   *body.Budget
	counts   counts
	upstream *upstream
	proxy    *httputil.ReverseProxy
}

type counts struct {
	requests, refused, retries, reconnects, overloaded, panics atomic.Uint64
}

// Stats are counts since the start, and what is held now.
type Stats struct {
	Requests   uint64 // all that came
	Refused    uint64 // answered with an error before a pod was asked
	Retries    uint64 // sent to a second pod
	Reconnects uint64 // sent again to the same pod after a dead keep-alive connection
	Overloaded uint64 // of the refused: for want of memory for bodies
	Panics     uint64
	BodyBytes  int64 // memory that request bodies hold now
}

// New checks the configuration and makes a gateway.
func New(cfg Config) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	cfg.withDefaults()
	names := make([]string, 0, len(cfg.AllowHeaders))
	for _, name := range cfg.AllowHeaders {
		names = append(names, http.CanonicalHeaderKey(name))
	}
	cfg.AllowHeaders = names
	g := &Gateway{cfg: cfg, bodies: body.NewBudget(cfg.MaxBodies)}
	g.upstream = newUpstream(&g.cfg, &g.counts)
	g.proxy = &httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      g.upstream,
		FlushInterval:  -1, // a streamed token is worth a packet
		ModifyResponse: modify,
		ErrorHandler:   failed,
		BufferPool:     &buffers{},
		// Its messages may quote what pods send.
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	return g, nil
}

// Close ends the unused connections to pods. Requests must have ended.
func (g *Gateway) Close() { g.upstream.transport.CloseIdleConnections() }

// Stats returns the gateway's counts.
func (g *Gateway) Stats() Stats {
	c := &g.counts
	return Stats{
		Requests: c.requests.Load(), Refused: c.refused.Load(), Retries: c.retries.Load(), Reconnects: c.reconnects.Load(),
		Overloaded: c.overloaded.Load(), Panics: c.panics.Load(), BodyBytes: g.bodies.Used(),
	}
}

// ServeHTTP implements [http.Handler].
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.counts.requests.Add(1)
	x := &exchange{gateway: g, w: w, control: http.NewResponseController(w)}
	defer x.end(r.Context())
	x.id, x.idReplaced = picker.RequestID(r.Header.Get(headerRequestID))
	steering.Strip(r.Header)
	if err := x.route(r); err != nil {
		g.counts.refused.Add(1)
		x.writeError(picker.ClientError(err))
		return
	}
	g.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
}

// route reads the request and has a pod picked for it.
func (x *exchange) route(r *http.Request) (err error) {
	if r.Method == http.MethodConnect {
		return &request.Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "CONNECT is not served here"}
	}
	if x.body, err = x.gateway.read(x.w, r); err != nil {
		return err
	}
	cfg := &x.gateway.cfg
	elapsed := stopwatch()
	coding := request.Coding(strings.Join(r.Header["Content-Encoding"], ","))
	parsed, err := request.Read(r.Method, r.URL.Path, coding, x.body.get(), cfg.Limits)
	if err != nil {
		return err
	}
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		client = "" // unknown
	}
	x.pick, err = cfg.Picker.Pick(r.Context(), &picker.Call{
		ID: x.id, IDReplaced: x.idReplaced, Path: r.URL.Path, Request: parsed, Body: x.body.get(),
		Headers: allowed(r.Header, cfg.AllowHeaders), Client: client,
		// Not when its first byte came: inputs are judged, and the pod is
		// reserved, as of the time of the decision, and uploads can be slow.
		Arrival: cfg.Clock.Now(), Parsing: elapsed(),
	})
	if err != nil {
		return err
	}
	return x.rename(parsed.Model)
}

// rename names the model in the body as the engines do.
func (x *exchange) rename(asked string) error {
	served := x.pick.Served()
	if served == asked || asked == "" {
		return nil
	}
	body, err := request.RewriteModel(x.body.get(), served)
	if err != nil {
		return err
	}
	x.body.bytes.Store(&body)
	x.asked, x.served = asked, served
	return nil
}

// rewrite finishes the headers of a request to a pod; the rest of it is made
// for each attempt.
func rewrite(p *httputil.ProxyRequest) {
	x, h := of(p.In.Context()), p.Out.Header
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	// 100 Continue was said when the body was read; there are no upgrades.
	h.Del("Expect")
	h.Del("Connection")
	h.Del("Upgrade")
	if prior, ok := p.In.Header["X-Forwarded-For"]; ok {
		h["X-Forwarded-For"] = prior
	}
	p.SetXForwarded()
	h.Set(headerRequestID, x.id)
	if x.served != "" {
		h.Set("Accept-Encoding", "identity") // the name has to be found
	}
}

var errUpgrade = errors.New("the pod switched protocols unasked")

// modify finishes a pod's response and begins to watch it.
func modify(res *http.Response) error {
	if res.StatusCode == http.StatusSwitchingProtocols {
		return errUpgrade
	}
	x, h := of(res.Request.Context()), res.Header
	steering.Strip(h)
	steering.Strip(res.Trailer) // as announced
	h.Set(headerRequestID, x.id)
	h.Set(headerEndpoint, x.pick.Endpoint())
	h.Set(headerPod, x.pick.Pod())
	x.watch(res)
	x.status, x.sent = res.StatusCode, true
	x.allowWrite()
	return nil
}

// failed answers for a pod from which no response came.
func failed(_ http.ResponseWriter, r *http.Request, err error) {
	x := of(r.Context())
	if r.Context().Err() != nil {
		x.failure = picker.ErrorClientGone
		panic(http.ErrAbortHandler) // there is nobody to answer
	}
	e := &request.Error{Status: http.StatusBadGateway, Code: "upstream_failed", Message: "the pod could not be reached"}
	x.failure = picker.ErrorUpstreamFailed
	if _, dial := errors.AsType[*dialError](err); !dial {
		e.Message = "the pod closed the connection before it answered"
		if isTimeout(err) {
			x.failure = picker.ErrorUpstreamTimeout
			e.Status, e.Code, e.Message = http.StatusGatewayTimeout, "upstream_timeout", "the pod did not answer in time"
		}
	}
	x.gateway.cfg.Logger.Warn("no answer from the pod",
		slog.String(logkey.RequestID, x.id), slog.String(logkey.Pod, x.pick.Pod()), slog.String(logkey.Endpoint, x.pick.Endpoint()),
		slog.String(logkey.Reason, reason(err)), slog.Int(logkey.Status, e.Status))
	x.writeError(e)
}

// buffers keeps copy buffers between responses.
type buffers struct{ pool sync.Pool }

const copyBuffer = 32 << 10

// Get implements [httputil.BufferPool].
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[copyBuffer]byte); ok {
		return p[:]
	}
	return make([]byte, copyBuffer)
}

// Put implements [httputil.BufferPool].
func (b *buffers) Put(p []byte) {
	if len(p) == copyBuffer {
		b.pool.Put((*[copyBuffer]byte)(p))
	}
}
