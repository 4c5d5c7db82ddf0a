package envoyconfig

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Cluster says how Envoy comes from the picker's answer to a pod.
type Cluster string

// The kinds of cluster.
const (
	// OriginalDst dials the address that the picker names, whatever it is.
	OriginalDst Cluster = "original-dst"
	// OverrideHost takes the picker's address if it is one of a list, and else
	// chooses from the list by itself.
	OverrideHost Cluster = "override-host"
)

// Request says how the picker gets the body of a request.
type Request string

// The ways of a request's body.
const (
	FullDuplex Request = "full-duplex" // piece by piece, and back the same way
	Buffered   Request = "buffered"    // Envoy holds all of it, and shows it at once
)

// Response says what the picker sees of an answer.
type Response string

// What the picker sees of an answer.
const (
	ResponseBody    Response = "body"    // all of it, on its way to the client
	ResponseHeaders Response = "headers" // its headers
	ResponseNone    Response = "none"    // nothing
)

// Config is what there is to choose. The names in the errors of [Config.Validate]
// are those of the command's flags.
type Config struct {
	Listen string // ip:port; port 0 takes any free one
	Admin  string // ip:port as well, "" for none

	Pickers    []string // host:port each, of the ext_proc service
	Plaintext  bool     // no TLS to the pickers
	PickerCA   []byte   // PEM, of which only certificates are used; nil takes any certificate
	PickerName string   // what the certificate must be made out to; "" for the pickers' hosts

	Cluster   Cluster
	Endpoints []string // of OverrideHost: ip:port or name=http://ip:port each
	HTTP2     bool     // speak HTTP/2 to the pods
	FailOpen  bool
	Retries   int

	Request          Request
	Response         Response
	MaxBody          int64 // bytes that Envoy holds of a request, when Buffered
	AccessLogService bool
}

// Default is the configuration for a picker on the same machine.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:10000", Admin: "127.0.0.1:9901", Pickers: []string{"127.0.0.1:9002"},
		Cluster: OriginalDst, Request: FullDuplex, Response: ResponseBody, MaxBody: 16 << 20,
	}
}

const (
	maxRetries = 10
	maxMaxBody = 1 << 30 // Envoy counts in 32 bits
)

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var problems []error
	problem := func(err error) { problems = append(problems, err) }
	problem(checkListener("listen", c.Listen))
	if c.Admin != "" {
		problem(checkListener("admin", c.Admin))
	}
	problem(oneOf("cluster", c.Cluster, OriginalDst, OverrideHost))
	problem(oneOf("request", c.Request, FullDuplex, Buffered))
	problem(oneOf("response", c.Response, ResponseBody, ResponseHeaders, ResponseNone))
	_, err := c.pickers()
	problem(err)
	problem(c.checkTLS())
	problem(c.checkPool())
	if c.MaxBody < 1 || c.MaxBody > maxMaxBody {
		problem(fmt.Errorf("--max-body: must be from 1 byte to 1GiB, got %d bytes", c.MaxBody))
	}
	return errors.Join(problems...)
}

func oneOf[T ~string](flag string, got T, values ...T) error {
	if slices.Contains(values, got) {
		return nil
	}
	return fmt.Errorf("--%s: there is no %q, only %s", flag, got, strings.Trim(fmt.Sprint(values), "[]"))
}

func (c *Config) checkTLS() error {
	switch {
	case c.Plaintext && (c.PickerCA != nil || c.PickerName != ""):
		return errors.New("--plaintext: without TLS there is no certificate for --picker-ca and --picker-name to check")
	case c.PickerCA == nil && c.PickerName != "":
		return errors.New("--picker-name: needs --picker-ca, else any certificate is taken")
	case c.PickerCA != nil && !holdsCertificate(c.PickerCA):
		return errors.New("--picker-ca: the file holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)")
	}
	if _, err := parseHost(c.PickerName); err != nil {
		return fmt.Errorf("--picker-name: %w", err)
	}
	return nil
}

// certificates are those of a PEM file, and nothing else that it may hold: keys
// often stand beside them, and configurations are passed around.
func certificates(b []byte) string {
	var all []byte
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			all = append(all, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		}
	}
	return string(all)
}

func holdsCertificate(b []byte) bool {
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			return true
		}
	}
	return false
}

// checkPool refuses what the kind of cluster can't do, each with the reason.
func (c *Config) checkPool() error {
	if c.Cluster == OverrideHost {
		if len(c.Endpoints) == 0 {
			return errors.New("--endpoint: --cluster override-host needs at least one: it takes no address outside of its list")
		}
		_, err := c.endpoints()
		return errors.Join(err, c.checkRetries())
	}
	var problems []error
	if len(c.Endpoints) > 0 {
		problems = append(problems, errors.New("--endpoint: --cluster original-dst has no list, it dials what the picker names"))
	}
	if c.FailOpen {
		problems = append(problems, errors.New("--fail-open: with --cluster original-dst there is nowhere to go without the picker, every request would end in 503; use --cluster override-host"))
	}
	if c.Retries != 0 {
		problems = append(problems, errors.New("--retries: --cluster original-dst would dial the same address again; use --cluster override-host"))
	}
	return errors.Join(problems...)
}

func (c *Config) checkRetries() error {
	if c.Retries < 0 || c.Retries > maxRetries {
		return fmt.Errorf("--retries: must be from 0 to %d, got %d", maxRetries, c.Retries)
	}
	if c.Retries > 0 && c.Request == FullDuplex {
		return errors.New("--retries: with --request full-duplex Envoy sends the body of a request with trailers twice; use --request buffered")
	}
	return nil
}

// An address is a host and a port that Envoy dials or listens on.
type address struct {
	host string
	port uint16
}

// isIP reports whether no name has to be looked up.
func (a address) isIP() bool {
	_, err := netip.ParseAddr(a.host)
	return err == nil
}

func (a address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(int(a.port))) }

func parseAddress(text string) (address, error) {
	host, portText, err := net.SplitHostPort(text)
	port, portErr := strconv.ParseUint(portText, 10, 16)
	if err != nil || portErr != nil {
		return address{}, fmt.Errorf("%q must have the form host:port", text)
	}
	if host, err = parseHost(host); err != nil {
		return address{}, fmt.Errorf("%q: %w", text, err)
	}
	return address{host, uint16(port)}, nil
}

// hostName matches a name that can be looked up. One whose last part has no letter
// is a mistyped IP address.
var hostName = regexp.MustCompile(`^([a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?\.)*[a-zA-Z0-9_-]*[a-zA-Z_][a-zA-Z0-9_-]*\.?$`)

// parseHost reads a name, an IP address, of which it returns the shortest spelling,
// or nothing.
func parseHost(text string) (string, error) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		return ip.String(), nil
	}
	if text != "" && !hostName.MatchString(text) {
		return "", fmt.Errorf("%q is neither the name of a host nor an IP address without a zone", text)
	}
	return text, nil
}

func checkListener(flag, text string) error {
	a, err := parseAddress(text)
	if err == nil && !a.isIP() {
		err = fmt.Errorf("%q: Envoy listens on an IP address, such as 127.0.0.1, or 0.0.0.0 for all", text)
	}
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}

func (c *Config) pickers() ([]address, error) {
	if len(c.Pickers) == 0 {
		return nil, errors.New("--picker: at least one is needed")
	}
	return addresses("picker", c.Pickers, func(text string) (address, error) {
		a, err := parseAddress(text)
		if err == nil && a.host == "" {
			err = fmt.Errorf("%q: the host is missing", text)
		}
		return a, err
	})
}

// endpoints are the pods of an override_host cluster. Envoy compares what the
// picker names with their addresses, so a name of a host would never match.
func (c *Config) endpoints() ([]address, error) {
	return addresses("endpoint", c.Endpoints, func(text string) (address, error) {
		a, err := parseEndpoint(text)
		if err == nil && !a.isIP() {
			err = fmt.Errorf("%q: must be an IP address: the picker names pods by theirs", text)
		}
		return a, err
	})
}

func addresses(flag string, texts []string, parse func(string) (address, error)) ([]address, error) {
	var found []address
	var problems []error
	for _, text := range texts {
		a, err := parse(text)
		switch {
		case err != nil:
		case a.port == 0:
			err = fmt.Errorf("%q: port 0 can't be dialled", text)
		case a.host == "0.0.0.0" || a.host == "::":
			err = fmt.Errorf("%q: a server may listen on all addresses, but is reached at one of them", text)
		case slices.Contains(found, a):
			err = fmt.Errorf("%q: %s is given twice", text, a)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("--%s: %w", flag, err))
		}
		found = append(found, a)
	}
	return found, errors.Join(problems...)
}

// parseEndpoint reads ip:port, or what 'serve --endpoint' takes.
func parseEndpoint(text string) (address, error) {
	_, base, named := strings.Cut(text, "=")
	if !named {
		return parseAddress(text)
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return address{}, fmt.Errorf("%q must have the form host:port or name=http://host:port", text)
	}
	if u.Port() == "" {
		return address{u.Hostname(), 80}, nil
	}
	return parseAddress(u.Host)
}
