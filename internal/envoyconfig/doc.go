// Package envoyconfig writes an Envoy configuration with this picker in it: a
// whole bootstrap, for a gateway that stands on fixed addresses.
//
// The one idea: the settings that make an endpoint picker safe behind Envoy are
// many, most of their defaults are wrong for it, and none of them is reported
// when it is missing. So there is no way to leave one out: what can be chosen is
// a [Config], everything else is the same in every configuration that comes out,
// and docs/envoy.md says why.
//
//	c := envoyconfig.Default()
//	c.Response = envoyconfig.ResponseHeaders
//	if err := c.Validate(); err != nil { … }
//	os.Stdout.Write(c.JSON())
//
// The result is plain JSON, which Envoy also reads from a pipe. It is built from
// maps and not from Envoy's own types: those would add megabytes to the program to
// check less than [Check] does, which asks Envoy itself.
//
// It is not for gateways that configure Envoy themselves (Envoy Gateway, Istio,
// kgateway); it reads no Kubernetes, and starts no Envoy.
package envoyconfig
