package envoyconfig

import "github.com/eppctl/eppctl/internal/steering"

// idleTimeout is how long a request may be without a byte in either direction. It
// is Envoy's only limit on a picker that hangs in full-duplex mode, and it is also
// how long a pod may think: this is how long OpenAI's clients wait.
const idleTimeout = "600s"

// pickTimeout is how long the picker may take to answer a message of a mode that
// is not full-duplex.
const pickTimeout = "10s"

func (c *Config) listener() object {
	a, _ := parseAddress(c.Listen) // valid
	of := object{
		"name":    frontName,
		"address": a.socket(),
		"filter_chains": list{object{"filters": list{extension(
			"envoy.filters.network.http_connection_manager",
			"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", c.manager())}}},
	}
	if c.Request == Buffered { // by itself 1 MiB, with 413 above
		of["per_connection_buffer_limit_bytes"] = c.MaxBody
	}
	return of
}

func (c *Config) manager() object {
	m := c.connections()
	if c.Request == Buffered {
		// Over HTTP/2 the window of a stream is the limit of what is held of it.
		m["http2_protocol_options"] = object{"initial_stream_window_size": min(max(c.MaxBody, minWindow), maxWindow)}
	}
	return m
}

// The least and the most that a stream's window may be in Envoy, in bytes.
const (
	minWindow = 65_535
	maxWindow = 1<<31 - 1
)

func (c *Config) connections() object {
	return object{
		"stat_prefix":           frontName,
		"codec_type":            "AUTO", // HTTP/1.1, and HTTP/2 without TLS
		"http_protocol_options": object{"enable_trailers": true},
		// A client's ID is kept, and each answer tells its ID.
		"preserve_external_request_id":      true,
		"always_set_request_id_in_response": true,
		"stream_idle_timeout":               idleTimeout,
		// Before any filter: a client must not choose its pod, even when the picker
		// is away.
		"early_header_mutation_extensions": list{extension("strip",
			"envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation", object{"mutations": strip()})},
		"access_log":   c.accessLogs(),
		"route_config": object{"name": frontName, "virtual_hosts": list{c.virtualHost()}},
		"http_filters": list{
			extension("envoy.filters.http.ext_proc", "envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor", c.extProc()),
			extension("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router", object{}),
		},
	}
}

// strip removes the headers that steer. It is one expression a family, since Envoy
// bounds how long an expression may be.
func strip() list {
	var mutations list
	for _, pattern := range steering.Patterns() {
		mutations = append(mutations, object{"remove_on_match": object{"key_matcher": object{"safe_regex": object{"regex": pattern}}}})
	}
	return mutations
}

func (c *Config) virtualHost() object {
	route := object{"cluster": poolName, "timeout": "0s"} // by itself 15 s for the whole answer
	host := object{
		"name": frontName, "domains": list{"*"},
		"routes": list{object{"name": poolName, "match": object{"prefix": "/"}, "route": route}},
	}
	if c.Retries > 0 {
		route["retry_policy"] = avoidPrevious(object{
			"retry_on":               "connect-failure,refused-stream,reset-before-request,retriable-status-codes",
			"retriable_status_codes": list{503},
			"num_retries":            c.Retries,
		})
		host["request_body_buffer_limit"] = c.MaxBody // by itself 1 MiB, with 507 above
	}
	return host
}

func (c *Config) extProc() object {
	modes := object{
		"request_header_mode": "SEND", "request_body_mode": "FULL_DUPLEX_STREAMED", "request_trailer_mode": "SEND",
		"response_header_mode": "SEND", "response_body_mode": "FULL_DUPLEX_STREAMED", "response_trailer_mode": "SEND",
	}
	if c.Request == Buffered {
		modes["request_body_mode"] = "BUFFERED"
	}
	if c.Response != ResponseBody {
		modes["response_body_mode"], modes["response_trailer_mode"] = "NONE", "SKIP"
	}
	if c.Response == ResponseNone {
		modes["response_header_mode"] = "SKIP"
	}
	return object{
		"grpc_service": object{
			"envoy_grpc":   object{"cluster_name": pickerName, "max_receive_message_length": c.maxMessage()},
			"retry_policy": pickerRetries(),
		},
		"failure_mode_allow": c.FailOpen,
		"message_timeout":    pickTimeout, // not in force in full-duplex
		"processing_mode":    modes,
		"request_attributes": list{"xds.route_name"},
		"response_attributes": list{
			"upstream.address", "upstream.request_attempt_count", "response.code", "response.flags", "response.code_details", "xds.route_name",
		},
		// Without these Envoy drops metadata without a word.
		"metadata_options": object{
			"forwarding_namespaces": object{"untyped": list{"envoy.lb", "envoy.lb.subset_hint"}},
			"receiving_namespaces":  object{"untyped": list{"envoy.lb"}},
		},
	}
}

// pickerRetries sends a stream to another picker when one can't be connected to:
// what a killed picker else costs until its health check fails. A stream that was
// begun is not repeated: what made one picker fall would go on to the next.
func pickerRetries() object {
	return avoidPrevious(object{"retry_on": "connect-failure,refused-stream", "num_retries": 2})
}

// avoidPrevious lets retries choose hosts that were not tried, if there are any.
func avoidPrevious(policy object) object {
	policy["retry_host_predicate"] = list{extension("envoy.retry_host_predicates.previous_hosts",
		"envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate", object{})}
	policy["host_selection_retry_max_attempts"] = 5
	return policy
}

// accessLogs are one line a request on standard output, which is where Envoy tells
// what it did and why, and the picker's own log if asked for.
func (c *Config) accessLogs() list {
	logs := list{extension("envoy.access_loggers.stdout", "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog", object{
		"log_format": object{
			"json_format": object{
				"time":          "%START_TIME%",
				"requestID":     "%REQ(X-REQUEST-ID)%",
				"method":        "%REQ(:METHOD)%",
				"path":          "%PATH(NQ)%", // a query may hold a key
				"code":          "%RESPONSE_CODE%",
				"details":       "%RESPONSE_CODE_DETAILS%",
				"flags":         "%RESPONSE_FLAGS%",
				"flagsInWords":  "%RESPONSE_FLAGS_LONG%",
				"picked":        "%DYNAMIC_METADATA(envoy.lb:" + steering.Destination + ")%",
				"upstream":      "%UPSTREAM_HOST%",
				"upstreamError": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
				"attempts":      "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
				"durationMs":    "%DURATION%",
				"firstByteMs":   "%RESPONSE_DURATION%",
				"requestBytes":  "%BYTES_RECEIVED%",
				"responseBytes": "%BYTES_SENT%",
			},
		},
	})}
	for _, cluster := range c.logClusterNames() {
		logs = append(logs, extension("envoy.access_loggers.http_grpc", "envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig", object{
			"common_config": object{
				"log_name":              "eppctl",
				"transport_api_version": "V3",
				"grpc_service":          object{"envoy_grpc": object{"cluster_name": cluster}},
				"buffer_size_bytes":     0, // each entry at once: until it comes, the picker counts the request as running
			},
		}))
	}
	return logs
}
