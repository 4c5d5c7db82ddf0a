package main

import (
	"slices"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/structpb"
)

// What Envoy 1.40.0 sends for a POST over HTTP/1.1 with a content-length and an
// HTTP/1.1 backend (recorded from the real one: --concurrency 2, FULL_DUPLEX_STREAMED
// both ways, trailers SEND, response_attributes upstream.address and response.code):
// all of a 400 KB body in one piece, the end in an empty one of its own, an empty
// metadata_context on every message, header values in raw_value.

// attributesKey is where Envoy puts the attributes of a message.
const attributesKey = "envoy.filters.http.ext_proc"

var noMetadata = &core.Metadata{}

func header(name, value string) *core.HeaderValue {
	return &core.HeaderValue{Key: name, RawValue: []byte(value)}
}

// fixedHeaders are those that are the same for all requests.
var fixedHeaders = []*core.HeaderValue{
	header(":authority", "gateway.example.com"),
	header(":path", chatPath),
	header(":method", "POST"),
	header(":scheme", "http"),
	header("user-agent", "OpenAI/Python 2.8.1"),
	header("accept", "application/json"),
	header("accept-encoding", "gzip, deflate"),
	header("content-type", "application/json"),
	header("authorization", "Bearer a-key"),
	header("x-forwarded-proto", "http"),
}

// requestHeaders is the first message of a stream.
func requestHeaders(bodyBytes int) *extproc.ProcessingRequest {
	headers := append(slices.Clip(fixedHeaders),
		header("content-length", strconv.Itoa(bodyBytes)), header("x-request-id", uuid.NewString()))
	return &extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_RequestHeaders{
			RequestHeaders: &extproc.HttpHeaders{Headers: &core.HeaderMap{Headers: headers}},
		},
		MetadataContext: noMetadata,
		ProtocolConfig: &extproc.ProtocolConfiguration{
			RequestBodyMode:  filter.ProcessingMode_FULL_DUPLEX_STREAMED,
			ResponseBodyMode: filter.ProcessingMode_FULL_DUPLEX_STREAMED,
		},
	}
}

// requestBody are the pieces of a body, none longer than piece bytes, and the
// empty one that ends it.
func requestBody(body []byte, piece int) []*extproc.ProcessingRequest {
	var out []*extproc.ProcessingRequest
	for _, b := range pieces(body, piece) {
		out = append(out, &extproc.ProcessingRequest{
			Request:         &extproc.ProcessingRequest_RequestBody{RequestBody: b},
			MetadataContext: noMetadata,
		})
	}
	return out
}

// responseBody is requestBody for the other direction.
func responseBody(body []byte, piece int) []*extproc.ProcessingRequest {
	var out []*extproc.ProcessingRequest
	for _, b := range pieces(body, piece) {
		out = append(out, &extproc.ProcessingRequest{
			Request:         &extproc.ProcessingRequest_ResponseBody{ResponseBody: b},
			MetadataContext: noMetadata,
		})
	}
	return out
}

func pieces(body []byte, longest int) []*extproc.HttpBody {
	var out []*extproc.HttpBody
	for len(body) > 0 {
		n := min(len(body), longest)
		out = append(out, &extproc.HttpBody{Body: body[:n]})
		body = body[n:]
	}
	return append(out, &extproc.HttpBody{EndOfStream: true})
}

// responseHeaders says that the pod at an address answered with a JSON document.
func responseHeaders(address string, bodyBytes int) *extproc.ProcessingRequest {
	return &extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_ResponseHeaders{
			ResponseHeaders: &extproc.HttpHeaders{Headers: &core.HeaderMap{Headers: []*core.HeaderValue{
				header(":status", "200"),
				header("date", "Mon, 30 Nov 2026 12:00:00 GMT"),
				header("server", "uvicorn"),
				header("content-length", strconv.Itoa(bodyBytes)),
				header("content-type", "application/json"),
				header("x-envoy-upstream-service-time", "1"),
			}}},
		},
		MetadataContext: noMetadata,
		Attributes: map[string]*structpb.Struct{attributesKey: {Fields: map[string]*structpb.Value{
			"response.code":    structpb.NewNumberValue(200),
			"upstream.address": structpb.NewStringValue(address),
		}}},
	}
}
