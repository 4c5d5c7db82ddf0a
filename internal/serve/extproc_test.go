package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/eppctl/eppctl/internal/logtest"
)

// anyTLS are the credentials of a client that asks for TLS and no proof.
func anyTLS() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
}

// grpc connects to a listener until the test ends.
func (r *rig) grpc(address string, creds credentials.TransportCredentials) *grpc.ClientConn {
	r.t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

// serving is what the health service says of a name.
func (r *rig) serving(conn *grpc.ClientConn, name string) string {
	r.t.Helper()
	answer, err := healthgrpc.NewHealthClient(conn).Check(r.ctx, &healthgrpc.HealthCheckRequest{Service: name})
	if err != nil {
		return status.Code(err).String()
	}
	return answer.GetStatus().String()
}

// An envoy is one request on its way through Envoy.
type envoy struct {
	t      *testing.T
	stream extproc.ExternalProcessor_ProcessClient
}

// begin sends the headers of a request whose body follows.
func (r *rig) begin(conn *grpc.ClientConn, id string) *envoy {
	r.t.Helper()
	stream, err := extproc.NewExternalProcessorClient(conn).Process(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	e := &envoy{r.t, stream}
	headers := &core.HeaderMap{}
	for name, value := range map[string]string{":method": "POST", ":path": completionsPath, ":authority": "x", "x-request-id": id} {
		headers.Headers = append(headers.Headers, &core.HeaderValue{Key: name, RawValue: []byte(value)})
	}
	e.send(&extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: headers}},
		ProtocolConfig: &extproc.ProtocolConfiguration{
			RequestBodyMode: filter.ProcessingMode_FULL_DUPLEX_STREAMED, ResponseBodyMode: filter.ProcessingMode_FULL_DUPLEX_STREAMED,
		},
	})
	return e
}

func (e *envoy) send(m *extproc.ProcessingRequest) {
	e.t.Helper()
	if err := e.stream.Send(m); err != nil {
		e.t.Fatal(err)
	}
}

// finish sends the body and fails unless a pod is named for it; then the whole
// answer comes from that pod.
func (e *envoy) finish(body string) {
	e.t.Helper()
	e.finishAs(body, nil, nil)
}

// finishAs is finish with what Envoy may say besides: metadata with the request, and
// attributes with the response.
func (e *envoy) finishAs(body string, metadata *core.Metadata, attributes map[string]*structpb.Struct) {
	e.t.Helper()
	e.send(&extproc.ProcessingRequest{MetadataContext: metadata, Request: &extproc.ProcessingRequest_RequestBody{
		RequestBody: &extproc.HttpBody{Body: []byte(body), EndOfStream: true},
	}})
	head, err := e.stream.Recv()
	if err != nil {
		e.t.Fatal(err)
	}
	destination := ""
	for _, h := range head.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		if h.GetHeader().GetKey() == "x-gateway-destination-endpoint" {
			destination = string(h.GetHeader().GetRawValue())
		}
	}
	if destination == "" {
		e.t.Fatalf("no destination in %v", head)
	}
	if _, err := e.stream.Recv(); err != nil { // the body
		e.t.Fatal(err)
	}
	headers := &core.HeaderMap{Headers: []*core.HeaderValue{{Key: ":status", RawValue: []byte("200")}}}
	e.send(&extproc.ProcessingRequest{Attributes: attributes, Request: &extproc.ProcessingRequest_ResponseHeaders{
		ResponseHeaders: &extproc.HttpHeaders{Headers: headers, EndOfStream: true},
	}})
	if _, err := e.stream.Recv(); err != nil {
		e.t.Fatal(err)
	}
	if err := e.stream.CloseSend(); err != nil {
		e.t.Fatal(err)
	}
	for err == nil {
		_, err = e.stream.Recv()
	}
}

// body is a completion's, as text.
func (r *rig) body() string { return `{"model":"` + r.model + `","prompt":"hello","max_tokens":1}` }

var allNames = []string{"", "liveness", "readiness", "inference-extension", "envoy.service.ext_proc.v3.ExternalProcessor"}

// newPair writes a new certificate of that name and its key into a directory.
func newPair(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestExtprocIsServed(t *testing.T) {
	cert, key := newPair(t, t.TempDir(), "picker.test")
	for _, tt := range []struct {
		name  string
		tls   TLS
		creds credentials.TransportCredentials
		mode  string
	}{
		{"with a certificate of its own", TLS{}, anyTLS(), "self-signed"},
		{"with one of files", TLS{CertFile: cert, KeyFile: key}, anyTLS(), "files"},
		{"without TLS", TLS{Plaintext: true}, insecure.NewCredentials(), "plaintext"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opts := serveOptions(2)
			opts.TLS = tt.tls
			r := start(t, opts)
			conn := r.grpc(r.at.Extproc, tt.creds)
			for port, conn := range map[string]*grpc.ClientConn{"ext_proc": conn, "health": r.grpc(r.at.Health, insecure.NewCredentials())} {
				for _, name := range allNames {
					if got := r.serving(conn, name); got != "SERVING" {
						t.Errorf("%s listener: %q is %s", port, name, got)
					}
				}
				if got := r.serving(conn, "elsewhere"); got != codes.NotFound.String() {
					t.Errorf("%s listener: an unknown name is %s", port, got)
				}
			}
			r.begin(conn, "by-envoy").finish(r.body())
			r.completed("by-envoy")
			if got := r.ours("epp_extproc_requests_total"); got != "1" {
				t.Errorf("%s requests are counted", got)
			}
			r.until("no stream is open", func() bool { return r.ours("epp_extproc_streams") == "0" })
			_, config := r.fetch("http://" + r.at.Admin + "/v1/config")
			for _, want := range []string{r.at.Extproc, tt.mode} {
				if !strings.Contains(config, `"`+want+`"`) {
					t.Errorf("/v1/config does not show %q:\n%s", want, config)
				}
			}
			conn.Close()
		})
	}
}

// Envoy's health checks offer no protocol by ALPN.
func TestClientsWithoutALPNAreServed(t *testing.T) {
	r := start(t, serveOptions(1))
	raw, err := tls.Dial("tcp", r.at.Extproc, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return raw, nil }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := r.serving(conn, "readiness"); got != "SERVING" {
		t.Errorf("readiness is %s", got)
	}
}

func TestAClientWithoutTLSIsToldOf(t *testing.T) {
	var log logtest.Log
	opts := serveOptions(1)
	opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := start(t, opts)
	port, err := net.Dial("tcp", r.at.Extproc) // only to see whether it is open
	if err != nil {
		t.Fatal(err)
	}
	port.Close()
	for range 3 {
		conn, err := net.Dial("tcp", r.at.Extproc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(conn) // until it is closed
		conn.Close()
	}
	if got := r.ours("epp_extproc_handshake_failures_total"); got != "3" {
		t.Errorf("%s failures are counted, want 3", got)
	}
	if n := strings.Count(log.String(), "the client does not speak TLS: let it, or start the picker with --plaintext"); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, log.String())
	}
}

func TestNoExtprocWithoutAnAddress(t *testing.T) {
	opts := serveOptions(1)
	opts.Config.Addresses.Extproc = ""
	r := start(t, opts)
	if r.at.Extproc != "" {
		t.Errorf("it listens on %s", r.at.Extproc)
	}
	r.ask("first", completionsPath, r.completion(words("b", 64), 1))
}

func TestABadCertificateIsAnErrorOfTheStart(t *testing.T) {
	opts := serveOptions(1)
	cert, _ := newPair(t, t.TempDir(), "one.test")
	_, key := newPair(t, t.TempDir(), "two.test")
	opts.TLS = TLS{CertFile: cert, KeyFile: key}
	_, err := New(opts)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"--tls-cert", "--tls-key", cert, key} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}

// Streams go on while the certificate changes.
func TestCertificateIsFollowed(t *testing.T) {
	dir := t.TempDir()
	opts := serveOptions(2)
	opts.TLS.CertFile, opts.TLS.KeyFile = newPair(t, dir, "first.test")
	r := start(t, opts)
	shown := func() string {
		conn, err := tls.Dial("tcp", r.at.Extproc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := shown(); got != "first.test" {
		t.Fatalf("the certificate shown is of %s", got)
	}
	conn := r.grpc(r.at.Extproc, anyTLS())
	open := r.begin(conn, "across")
	newPair(t, dir, "second.test")
	r.until("the second is shown", func() bool { return shown() == "second.test" })
	open.finish(r.body())
	conn.Close()
}

func TestShutdownServesEnvoyUntilItGoes(t *testing.T) {
	r := start(t, serveOptions(2))
	conn, plain := r.grpc(r.at.Extproc, anyTLS()), r.grpc(r.at.Health, insecure.NewCredentials())
	open := r.begin(conn, "across")
	r.until("its stream is open", func() bool { return r.ours("epp_extproc_streams") == "1" })
	r.stop()
	r.unready()
	for _, name := range allNames {
		want := "NOT_SERVING"
		if name == "liveness" {
			want = "SERVING"
		}
		for port, conn := range map[string]*grpc.ClientConn{"ext_proc": conn, "health": plain} {
			if got := r.serving(conn, name); got != want {
				t.Errorf("%s listener: %q is %s, want %s", port, name, got, want)
			}
		}
	}
	r.begin(conn, "on-the-same-connection").finish(r.body())
	fresh := r.grpc(r.at.Extproc, anyTLS())
	r.begin(fresh, "on-a-new-connection").finish(r.body())
	open.finish(r.body())
	for _, id := range []string{"across", "on-the-same-connection", "on-a-new-connection"} {
		r.completed(id)
	}
	conn.Close()
	fresh.Close()
	r.over()
}

func TestShutdownLetsStreamsFinish(t *testing.T) {
	opts := serveOptions(2)
	opts.Linger = time.Millisecond
	opts.RecordDir = t.TempDir()
	r := start(t, opts)
	conn := r.grpc(r.at.Extproc, anyTLS())
	open := r.begin(conn, "across")
	r.until("its stream is open", func() bool { return r.ours("epp_extproc_streams") == "1" })
	r.stop()
	r.refuses(r.at.Extproc)
	open.finish(r.body())
	r.over()
	if rec := filed(t, opts.RecordDir)["across"]; rec == nil || rec.Outcome.Status != 200 {
		t.Errorf("recorded as %+v", rec)
	}
}

func TestShutdownCutsStreamsThatOutlastTheDrainTime(t *testing.T) {
	opts := serveOptions(2)
	opts.Linger, opts.Drain = time.Millisecond, 20*time.Millisecond
	r := start(t, opts)
	open := r.begin(r.grpc(r.at.Extproc, anyTLS()), "endless")
	r.until("its stream is open", func() bool { return r.ours("epp_extproc_streams") == "1" })
	r.stop()
	r.over()
	if _, err := open.stream.Recv(); err == nil {
		t.Error("the stream goes on")
	}
	if n := r.server.picker.Open(); n != 0 {
		t.Errorf("%d picks are open after the end", n)
	}
}
