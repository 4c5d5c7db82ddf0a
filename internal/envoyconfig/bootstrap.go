package envoyconfig

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/eppctl/eppctl/internal/steering"
)

type (
	object = map[string]any
	list   = []any
)

// typed is an extension's configuration: an Any in JSON.
func typed(message string, fields object) object {
	fields["@type"] = "type.googleapis.com/" + message
	return fields
}

// extension is a named extension with its configuration.
func extension(name, message string, fields object) object {
	return object{"name": name, "typed_config": typed(message, fields)}
}

func (a address) socket() object {
	return object{"socket_address": object{"address": a.host, "port_value": a.port}}
}

// The names that access logs, statistics and attributes show.
const (
	frontName   = "front"
	poolName    = "pool"
	pickerName  = "picker"
	grpcService = "envoy.service.ext_proc.v3.ExternalProcessor"
)

// maxOpen is how many connections clients may have, and how many connections and
// requests each cluster may have open or waiting. Envoy's own limits are none for
// clients, and 1,024 for clusters, which a fleet of busy pods exceeds; this is how
// many requests the picker takes at once.
const maxOpen = 20_000

// JSON is the configuration, indented; keys are in the order of the alphabet. The
// configuration must be valid.
func (c *Config) JSON() []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(c.bootstrap()); err != nil { // maps of strings and numbers
		panic(fmt.Sprintf("envoyconfig: %v", err))
	}
	return b.Bytes()
}

func (c *Config) bootstrap() object {
	b := object{
		"static_resources": object{
			"listeners": list{c.listener()},
			"clusters":  append(list{c.pool(), c.pickerCluster()}, c.logClusters()...),
		},
		"overload_manager": object{"resource_monitors": list{extension(
			"envoy.resource_monitors.global_downstream_max_connections",
			"envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
			object{"max_active_downstream_connections": maxOpen})}},
	}
	if c.Admin != "" {
		a, _ := parseAddress(c.Admin) // valid
		b["admin"] = object{"address": a.socket()}
	}
	return b
}

// cluster has what all clusters share.
func cluster(name, kind string, protocol object, more object) object {
	more["name"] = name
	more["type"] = kind
	more["connect_timeout"] = "1s"
	more["circuit_breakers"] = object{"thresholds": list{object{
		"max_connections": maxOpen, "max_pending_requests": maxOpen, "max_requests": maxOpen, "max_retries": maxOpen,
	}}}
	more["typed_extension_protocol_options"] = object{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": typed("envoy.extensions.upstreams.http.v3.HttpProtocolOptions", protocol),
	}
	return more
}

// pool is the cluster of the pods.
func (c *Config) pool() object {
	protocol := object{"explicit_http_config": object{"http2_protocol_options": object{}}}
	if !c.HTTP2 {
		protocol = object{
			// Without it trailers end here.
			"explicit_http_config": object{"http_protocol_options": object{"enable_trailers": true}},
			// vLLM and uvicorn close connections that were idle for 5 s, and a request
			// written just then is lost.
			"common_http_protocol_options": object{"idle_timeout": "4s"},
		}
	}
	if c.Cluster == OriginalDst {
		return cluster(poolName, "ORIGINAL_DST", protocol, object{
			"lb_policy":              "CLUSTER_PROVIDED",
			"original_dst_lb_config": object{"use_http_header": true, "http_header_name": steering.Destination},
		})
	}
	endpoints, _ := c.endpoints() // valid
	return cluster(poolName, "STATIC", protocol, object{
		"load_assignment":       assignment(poolName, endpoints),
		"load_balancing_policy": policy("override_host", "OverrideHost", overrideHost()),
		"outlier_detection":     unreachable(),
	})
}

// overrideHost follows the picker, and without it goes where least is open.
func overrideHost() object {
	inLB := func(name string) object { return object{"key": "envoy.lb", "path": list{object{"key": name}}} }
	return object{
		"override_host_sources": list{
			object{"metadata": inLB(steering.Destination)},
			object{"header": steering.Destination},
		},
		"selected_host_key": inLB(steering.Served),
		"fallback_policy":   policy("least_request", "LeastRequest", object{}),
	}
}

// unreachable keeps Envoy's own choice off pods that can't be connected to. What
// the picker names is dialled all the same, and no answer counts against a pod.
func unreachable() object {
	return object{
		"split_external_local_origin_errors":    true,
		"consecutive_local_origin_failure":      3,
		"base_ejection_time":                    "10s",
		"max_ejection_percent":                  50,
		"enforcing_consecutive_5xx":             0,
		"enforcing_consecutive_gateway_failure": 0,
		"enforcing_success_rate":                0,
		"enforcing_local_origin_success_rate":   0,
	}
}

func policy(name, message string, fields object) object {
	return object{"policies": list{object{"typed_extension_config": extension(
		"envoy.load_balancing_policies."+name, "envoy.extensions.load_balancing_policies."+name+".v3."+message, fields)}}}
}

func assignment(name string, endpoints []address) object {
	all := list{}
	for _, a := range endpoints {
		all = append(all, object{"endpoint": object{"address": a.socket()}})
	}
	return object{"cluster_name": name, "endpoints": list{object{"lb_endpoints": all}}}
}

// pickerCluster holds all pickers; requests go to the healthy ones.
func (c *Config) pickerCluster() object {
	pickers, _ := c.pickers() // valid
	of := c.grpcCluster(pickerName, pickers)
	of["health_checks"] = list{object{
		// A picker that is asked to end says NOT_SERVING at once, and serves on for
		// its drain time: within the interval it gets nothing new.
		"grpc_health_check": object{"service_name": grpcService},
		"interval":          "0.5s",
		"timeout":           "1s",
		// Until a request has come, Envoy else asks once a minute: a picker that
		// started after it would not be seen for that long.
		"no_traffic_interval": "0.5s",
		"healthy_threshold":   1,
		"unhealthy_threshold": 2,
	}}
	// Else, with all pickers unhealthy, requests would go to them all the same.
	of["common_lb_config"] = object{"healthy_panic_threshold": object{"value": 0}}
	return of
}

// logClusters are one cluster a picker: each gets all entries of the access log,
// for only the one that took a decision can make use of its end.
func (c *Config) logClusters() list {
	var all list
	pickers, _ := c.pickers() // valid
	for i, name := range c.logClusterNames() {
		all = append(all, c.grpcCluster(name, pickers[i:i+1]))
	}
	return all
}

func (c *Config) logClusterNames() []string {
	if !c.AccessLogService {
		return nil
	}
	names := make([]string, len(c.Pickers))
	for i := range names {
		names[i] = fmt.Sprintf("%s-log-%d", pickerName, i+1)
	}
	return names
}

func (c *Config) grpcCluster(name string, pickers []address) object {
	protocol := object{"explicit_http_config": object{"http2_protocol_options": object{
		// A machine that vanished closes no connection.
		"connection_keepalive": object{"interval": "10s", "timeout": "5s"},
	}}}
	of := cluster(name, "STATIC", protocol, object{"load_assignment": assignment(name, pickers)})
	for _, a := range pickers {
		if !a.isIP() {
			of["type"] = "STRICT_DNS"
			of["dns_lookup_family"] = "V4_PREFERRED"
		}
	}
	if !c.Plaintext {
		of["transport_socket"] = c.tls(pickers)
	}
	return of
}

// tls takes any certificate without a CA: pickers make their own unless told
// otherwise.
func (c *Config) tls(pickers []address) object {
	common := object{
		"tls_params": object{"tls_maximum_protocol_version": "TLSv1_3"},
		// Requests offer it by themselves, health checks don't, and gRPC servers insist.
		"alpn_protocols": list{"h2"},
	}
	of := object{"common_tls_context": common}
	if c.PickerCA != nil {
		names := []address{{host: c.PickerName}}
		if c.PickerName == "" {
			names = pickers
		}
		matchers := list{}
		for _, name := range names {
			kind := "DNS"
			if name.isIP() {
				kind = "IP_ADDRESS"
			}
			matchers = append(matchers, object{"san_type": kind, "matcher": object{"exact": name.host}})
		}
		if len(names) == 1 && !names[0].isIP() {
			of["sni"] = names[0].host
		}
		common["validation_context"] = object{
			"trusted_ca":                    object{"inline_string": certificates(c.PickerCA)},
			"match_typed_subject_alt_names": matchers,
		}
	}
	return extension("envoy.transport_sockets.tls", "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", of)
}

// maxMessage is the longest message that Envoy takes from the picker, in bytes: a
// piece of a body, or the whole of one, and what stands around it.
func (c *Config) maxMessage() int64 {
	const piece, around = 2 << 20, 1 << 20 // pieces fill at most a connection's buffer, 1 MiB
	if c.Request == Buffered {
		return max(c.MaxBody, piece) + around
	}
	return piece + around
}
