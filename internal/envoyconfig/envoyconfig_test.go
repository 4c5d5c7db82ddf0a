package envoyconfig

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/golden"
	"github.com/eppctl/eppctl/internal/steering"
)

func ca(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// with is the default configuration with changes.
func with(changes ...func(*Config)) *Config {
	c := Default()
	for _, change := range changes {
		change(&c)
	}
	return &c
}

func overriding(c *Config) {
	c.Cluster = OverrideHost
	c.Endpoints = []string{"127.0.0.1:8000", "b=http://[::1]:8001"}
}

// variants are the configurations whose text is kept.
func variants(t *testing.T) map[string]*Config {
	return map[string]*Config{
		"default": with(),
		"override-host": with(overriding, func(c *Config) {
			c.Pickers = []string{"10.0.1.1:9002", "10.0.1.2:9002"}
			c.PickerCA = ca(t)
			c.Request, c.Retries, c.FailOpen = Buffered, 2, true
		}),
		"access-log": with(func(c *Config) {
			c.Pickers, c.Plaintext = []string{"picker.internal:9002"}, true
			c.Response, c.AccessLogService, c.HTTP2, c.Admin = ResponseNone, true, true, ""
		}),
	}
}

// combinations are all choices that have an effect on each other.
func combinations(t *testing.T) map[string]*Config {
	pickers := map[string]func(*Config){
		"plaintext":   func(c *Config) { c.Plaintext = true },
		"two pickers": func(c *Config) { c.Pickers = append(c.Pickers, "127.0.0.1:9012") },
		"a CA":        func(c *Config) { c.Pickers, c.PickerCA, c.Admin = []string{"localhost:9002"}, ca(t), "" },
	}
	pools := map[string]func(*Config){
		"original-dst":  func(*Config) {},
		"override-host": overriding,
		"fail-open":     func(c *Config) { overriding(c); c.FailOpen = true },
		"retries":       func(c *Config) { overriding(c); c.Retries = 2 },
		"all":           func(c *Config) { overriding(c); c.FailOpen, c.Retries = true, 10 },
	}
	all := map[string]*Config{}
	for picker, setPicker := range pickers {
		for pool, setPool := range pools {
			for _, request := range []Request{FullDuplex, Buffered} {
				for _, response := range []Response{ResponseBody, ResponseHeaders, ResponseNone} {
					for bits := range 4 {
						log, http2 := bits&1 != 0, bits&2 != 0
						c := with(setPicker, setPool, func(c *Config) {
							c.Request, c.Response, c.AccessLogService, c.HTTP2 = request, response, log, http2
						})
						if c.Retries > 0 && c.Request == FullDuplex {
							continue // refused
						}
						all[fmt.Sprintf("%s, %s, %s, %s, log %t, http2 %t", picker, pool, request, response, log, http2)] = c
					}
				}
			}
		}
	}
	return all
}

func TestGolden(t *testing.T) {
	for name, c := range variants(t) {
		t.Run(name, func(t *testing.T) {
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			golden.Equal(t, "testdata/"+name+".json", c.JSON())
		})
	}
}

// at is what stands in a document under a path of keys and numbers.
func at(node any, path string) any {
	for part := range strings.FieldsSeq(path) {
		switch n := node.(type) {
		case map[string]any:
			node = n[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(n) {
				return nil
			}
			node = n[i]
		default:
			return nil
		}
	}
	return node
}

// mustHaves are the settings without which something goes wrong silently: where
// they stand, and what they are.
var mustHaves = []struct{ in, path, want string }{
	// a client must not choose its pod
	{"manager", "early_header_mutation_extensions 0 typed_config mutations", "PATTERNS"},
	// IDs
	{"manager", "preserve_external_request_id", `true`},
	{"manager", "always_set_request_id_in_response", `true`},
	// timeouts: none for the whole answer, one for silence
	{"route", "route timeout", `"0s"`},
	{"manager", "stream_idle_timeout", `"600s"`},
	{"extProc", "message_timeout", `"10s"`},
	{"extProc", "processing_mode request_header_mode", `"SEND"`},
	{"extProc", "processing_mode request_trailer_mode", `"SEND"`},
	{"extProc", "metadata_options receiving_namespaces untyped", `["envoy.lb"]`},
	{"extProc", "metadata_options forwarding_namespaces untyped", `["envoy.lb","envoy.lb.subset_hint"]`},
	{"extProc", "request_attributes", `["xds.route_name"]`},
	{"extProc", "response_attributes", `["upstream.address","upstream.request_attempt_count","response.code","response.flags","response.code_details","xds.route_name"]`},
	{"extProc", "grpc_service envoy_grpc cluster_name", `"picker"`},
	{"extProc", "grpc_service retry_policy retry_on", `"connect-failure,refused-stream"`},
	// trailers from clients
	{"manager", "http_protocol_options enable_trailers", `true`},
	// a picker that says NOT_SERVING gets nothing more
	{"picker", "health_checks 0 grpc_health_check service_name", `"envoy.service.ext_proc.v3.ExternalProcessor"`},
	{"picker", "health_checks 0 interval", `"0.5s"`},
	{"picker", "health_checks 0 no_traffic_interval", `"0.5s"`},
	{"picker", "common_lb_config healthy_panic_threshold value", `0`},
	{"picker", "typed_extension_protocol_options envoy.extensions.upstreams.http.v3.HttpProtocolOptions explicit_http_config http2_protocol_options connection_keepalive interval", `"10s"`},
	{"picker", "circuit_breakers thresholds 0 max_requests", `20000`},
	{"pool", "circuit_breakers thresholds 0 max_requests", `20000`},
}

func TestMustHaves(t *testing.T) {
	for name, c := range combinations(t) {
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		parts := partsOf(t, c)
		for _, must := range mustHaves {
			want := must.want
			if want == "PATTERNS" {
				want = text(t, strip())
			}
			if got := text(t, at(parts[must.in], must.path)); got != want {
				t.Errorf("%s: %s %s is %s, want %s", name, must.in, must.path, got, want)
			}
		}
	}
	if got := len(strip()); got < 10 || got != len(steering.Patterns()) {
		t.Errorf("%d families of headers are stripped, want all %d", got, len(steering.Patterns()))
	}
}

// partsOf reads a configuration back.
func partsOf(t *testing.T, c *Config) map[string]any {
	t.Helper()
	var doc any
	if err := json.Unmarshal(c.JSON(), &doc); err != nil {
		t.Fatal(err)
	}
	manager := at(doc, "static_resources listeners 0 filter_chains 0 filters 0 typed_config")
	return map[string]any{
		"doc": doc, "manager": manager,
		"listener": at(doc, "static_resources listeners 0"),
		"host":     at(manager, "route_config virtual_hosts 0"),
		"route":    at(manager, "route_config virtual_hosts 0 routes 0"),
		"extProc":  at(manager, "http_filters 0 typed_config"),
		"pool":     at(doc, "static_resources clusters 0"),
		"picker":   at(doc, "static_resources clusters 1"),
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestChoices(t *testing.T) {
	const protocol = "typed_extension_protocol_options envoy.extensions.upstreams.http.v3.HttpProtocolOptions explicit_http_config "
	buffered := func(c *Config) { overriding(c); c.Request, c.MaxBody, c.Retries = Buffered, 5<<20, 3 }
	for _, tc := range []struct {
		name     string
		change   func(*Config)
		in, path string
		want     string
	}{
		{"original-dst dials what the header says", nil, "pool", "original_dst_lb_config", `{"http_header_name":"x-gateway-destination-endpoint","use_http_header":true}`},
		{"override-host reads metadata before the header", overriding, "pool", "load_balancing_policy policies 0 typed_extension_config typed_config override_host_sources 0 metadata key", `"envoy.lb"`},
		{"override-host tells who served", overriding, "pool", "load_balancing_policy policies 0 typed_extension_config typed_config selected_host_key path 0 key", `"x-gateway-destination-endpoint-served"`},
		{"trailers to pods", nil, "pool", protocol + "http_protocol_options enable_trailers", `true`},
		{"HTTP/2 to pods", func(c *Config) { c.HTTP2 = true }, "pool", protocol + "http2_protocol_options", `{}`},
		{"full-duplex", nil, "extProc", "processing_mode request_body_mode", `"FULL_DUPLEX_STREAMED"`},
		{"full-duplex keeps Envoy's own buffer", nil, "listener", "per_connection_buffer_limit_bytes", `null`},
		{"full-duplex has no retries", overriding, "route", "route retry_policy", `null`},
		{"buffered", buffered, "extProc", "processing_mode request_body_mode", `"BUFFERED"`},
		{"buffered holds a whole body", buffered, "listener", "per_connection_buffer_limit_bytes", `5242880`},
		{"buffered holds a whole body over HTTP/2", buffered, "manager", "http2_protocol_options initial_stream_window_size", `5242880`},
		{"buffered lets a whole body come back", buffered, "extProc", "grpc_service envoy_grpc max_receive_message_length", `6291456`},
		{"retries hold a whole body", buffered, "host", "request_body_buffer_limit", `5242880`},
		{"retries", buffered, "route", "route retry_policy num_retries", `3`},
		{"the body of answers", nil, "extProc", "processing_mode response_body_mode", `"FULL_DUPLEX_STREAMED"`},
		{"the trailers of answers", nil, "extProc", "processing_mode response_trailer_mode", `"SEND"`},
		{"headers of answers", func(c *Config) { c.Response = ResponseHeaders }, "extProc", "processing_mode response_header_mode", `"SEND"`},
		{"headers of answers alone", func(c *Config) { c.Response = ResponseHeaders }, "extProc", "processing_mode response_body_mode", `"NONE"`},
		{"nothing of answers", func(c *Config) { c.Response = ResponseNone }, "extProc", "processing_mode response_header_mode", `"SKIP"`},
		{"fail closed", overriding, "extProc", "failure_mode_allow", `false`},
		{"fail open", func(c *Config) { overriding(c); c.FailOpen = true }, "extProc", "failure_mode_allow", `true`},
		{"TLS that takes any certificate", nil, "picker", "transport_socket typed_config common_tls_context validation_context", `null`},
		{"HTTP/2 by ALPN, for health checks too", nil, "picker", "transport_socket typed_config common_tls_context alpn_protocols", `["h2"]`},
		{"the picker's host in its certificate", func(c *Config) { c.PickerCA = ca(t) }, "picker", "transport_socket typed_config common_tls_context validation_context match_typed_subject_alt_names", `[{"matcher":{"exact":"127.0.0.1"},"san_type":"IP_ADDRESS"}]`},
		{"another name in its certificate", func(c *Config) { c.PickerCA, c.PickerName = ca(t), "epp.svc" }, "picker", "transport_socket typed_config common_tls_context validation_context match_typed_subject_alt_names", `[{"matcher":{"exact":"epp.svc"},"san_type":"DNS"}]`},
		{"and asked for by it", func(c *Config) { c.PickerCA, c.PickerName = ca(t), "epp.svc" }, "picker", "transport_socket typed_config sni", `"epp.svc"`},
		{"no TLS", func(c *Config) { c.Plaintext = true }, "picker", "transport_socket", `null`},
		{"a picker by name", func(c *Config) { c.Pickers = []string{"localhost:1"} }, "picker", "type", `"STRICT_DNS"`},
		{"every picker gets the whole log", func(c *Config) { c.Pickers, c.AccessLogService = []string{"10.0.0.1:1", "10.0.0.2:1"}, true }, "manager", "access_log 2 typed_config common_config grpc_service envoy_grpc cluster_name", `"picker-log-2"`},
		{"a cluster for the log of each", func(c *Config) { c.Pickers, c.AccessLogService = []string{"10.0.0.1:1", "10.0.0.2:1"}, true }, "doc", "static_resources clusters 3 name", `"picker-log-2"`},
		{"no admin interface", func(c *Config) { c.Admin = "" }, "doc", "admin", `null`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := with()
			if tc.change != nil {
				tc.change(c)
			}
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			if got := text(t, at(partsOf(t, c)[tc.in], tc.path)); got != tc.want {
				t.Errorf("%s %s is %s, want %s", tc.in, tc.path, got, tc.want)
			}
		})
	}
}

// A file of certificates often holds the key of one of them.
func TestKeysStayOutOfTheConfiguration(t *testing.T) {
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
	c := with(func(c *Config) { c.PickerCA = slices.Concat(key, ca(t), []byte("a remark\n"), ca(t), key) })
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	got := at(partsOf(t, c)["picker"], "transport_socket typed_config common_tls_context validation_context trusted_ca inline_string")
	if want := strings.Repeat(certificates(ca(t)), 2); got != want {
		t.Errorf("the CA is\n%s\nwant\n%s", got, want)
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string // in the error; "" = none
	}{
		{"the default", func(*Config) {}, ""},
		{"any free ports", func(c *Config) { c.Listen, c.Admin = "127.0.0.1:0", "[::1]:0" }, ""},
		{"a listener with a name", func(c *Config) { c.Listen = "localhost:1" }, `--listen: "localhost:1": Envoy listens on an IP address`},
		{"a listener on all addresses", func(c *Config) { c.Listen = ":1" }, `--listen: ":1": Envoy listens on an IP address`},
		{"an admin port too high", func(c *Config) { c.Admin = "127.0.0.1:65536" }, `--admin: "127.0.0.1:65536" must have the form host:port`},
		{"no picker", func(c *Config) { c.Pickers = nil }, "--picker: at least one"},
		{"a picker with a URL", func(c *Config) { c.Pickers = []string{"http://a:1"} }, `--picker: "http://a:1" must have the form host:port`},
		{"a picker without a host", func(c *Config) { c.Pickers = []string{":1"} }, "the host is missing"},
		{"a picker on port 0", func(c *Config) { c.Pickers = []string{"a:0"} }, "port 0 can't be dialled"},
		{"a picker twice", func(c *Config) { c.Pickers = []string{"a:1", "a:1"} }, "a:1 is given twice"},
		{"a picker in two spellings", func(c *Config) { c.Pickers = []string{"[::1]:1", "[0:0::1]:1"} }, "[::1]:1 is given twice"},
		{"a picker with a line break", func(c *Config) { c.Pickers = []string{"a\n\":1"} }, `"a\n\"" is neither the name of a host nor an IP address`},
		{"a picker with letters that no host has", func(c *Config) { c.Pickers = []string{"ü:1"} }, "is neither the name"},
		{"a picker whose address is none", func(c *Config) { c.Pickers = []string{"256.1.1.1:1"} }, "is neither the name"},
		{"a picker in a zone", func(c *Config) { c.Pickers = []string{"[fe80::1%eth0]:1"} }, "is neither the name"},
		{"a picker on all addresses", func(c *Config) { c.Pickers = []string{"0.0.0.0:1"} }, "a server may listen on all addresses, but is reached at one of them"},
		{"pickers with all kinds of names", func(c *Config) {
			c.Pickers = []string{"7f3a:1", "epp_1.ns.svc.cluster.local.:1", "a-b.0c:1", "10.0.0.1:1", "[fe80::1]:1"}
		}, ""},
		{"a listener in a zone", func(c *Config) { c.Listen = "[fe80::1%eth0]:1" }, "is neither the name"},
		{"a name with a port", func(c *Config) { c.PickerCA, c.PickerName = ca(t), "epp.svc:9002" }, `--picker-name: "epp.svc:9002" is neither the name`},
		{"a name that is an address", func(c *Config) { c.PickerCA, c.PickerName = ca(t), "::1" }, ""},
		{"a CA without TLS", func(c *Config) { c.Plaintext, c.PickerCA = true, ca(t) }, "--plaintext: without TLS"},
		{"a CA that is none", func(c *Config) { c.PickerCA = []byte("no\n") }, "--picker-ca: the file holds no certificate"},
		{"an empty CA", func(c *Config) { c.PickerCA = []byte{} }, "--picker-ca: the file holds no certificate"},
		{"a name without a CA", func(c *Config) { c.PickerName = "a" }, "--picker-name: needs --picker-ca"},
		{"an unknown cluster", func(c *Config) { c.Cluster = "eds" }, `--cluster: there is no "eds", only original-dst override-host`},
		{"an unknown request", func(c *Config) { c.Request = "streamed" }, "--request: there is no"},
		{"an unknown response", func(c *Config) { c.Response = "" }, "--response: there is no"},
		{"override-host without a list", func(c *Config) { c.Cluster = OverrideHost }, "--endpoint: --cluster override-host needs at least one"},
		{"original-dst with a list", func(c *Config) { c.Endpoints = []string{"1.2.3.4:5"} }, "--endpoint: --cluster original-dst has no list"},
		{"original-dst that fails open", func(c *Config) { c.FailOpen = true }, "--fail-open: with --cluster original-dst there is nowhere to go"},
		{"original-dst with retries", func(c *Config) { c.Retries = 1 }, "--retries: --cluster original-dst would dial the same address"},
		{"an endpoint by name", func(c *Config) { overriding(c); c.Endpoints = []string{"pod:1"} }, `--endpoint: "pod:1": must be an IP address`},
		{"an endpoint with TLS", func(c *Config) { overriding(c); c.Endpoints = []string{"a=https://1.2.3.4:5"} }, "must have the form host:port or name=http://host:port"},
		{"an endpoint with a path", func(c *Config) { overriding(c); c.Endpoints = []string{"a=http://1.2.3.4:5/v1"} }, "must have the form"},
		{"an endpoint without a port", func(c *Config) { overriding(c); c.Endpoints = []string{"a=http://1.2.3.4"} }, ""},
		{"an endpoint in two spellings", func(c *Config) { overriding(c); c.Endpoints = []string{"a=http://1.2.3.4:5", "1.2.3.4:5"} }, "is given twice"},
		{"retries in full-duplex", func(c *Config) { overriding(c); c.Retries = 1 }, "sends the body of a request with trailers twice"},
		{"too many retries", func(c *Config) { overriding(c); c.Request, c.Retries = Buffered, 11 }, "--retries: must be from 0 to 10, got 11"},
		{"fewer than no retries", func(c *Config) { overriding(c); c.Request, c.Retries = Buffered, -1 }, "--retries: must be from 0 to 10, got -1"},
		{"no body at all", func(c *Config) { c.MaxBody = 0 }, "--max-body: must be from 1 byte to 1GiB"},
		{"a body that Envoy can't count", func(c *Config) { c.MaxBody = 1<<30 + 1 }, "--max-body: must be from 1 byte to 1GiB"},
		{"everything at once", func(c *Config) { c.Listen, c.MaxBody = "x", 0 }, "--listen: \"x\" must have the form host:port\n--max-body"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := with(tc.change).Validate()
			if tc.want == "" && err != nil {
				t.Error(err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}
