package deploy

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/score"
)

// Kubernetes' forms of names.
var (
	label      = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	serviceDNS = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	subdomain  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	labelKey   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelText  = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	image      = regexp.MustCompile(`^` + registry + imagePart + `(/` + imagePart + `)*(:[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?$`)
	cpu        = regexp.MustCompile(`^([1-9][0-9]{0,5}m|[1-9][0-9]{0,3}(\.[0-9]{1,3})?|0\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))$`)
	memory     = regexp.MustCompile(`^([1-9][0-9]{0,3}Gi|(25[6-9]|2[6-9][0-9]|[3-9][0-9]{2}|[1-9][0-9]{3,6})Mi)$`) // half of 256Mi is for records
)

// Parts of an image's name, as registries and kubelets read it.
const (
	registry  = `([a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]{1,5})?/)?`
	imagePart = `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
)

// Labels of the picker's pods.
const (
	nameLabel     = "app.kubernetes.io/name"
	instanceLabel = "app.kubernetes.io/instance"
	poolLabel     = "eppctl.dev/pool"
)

const (
	maxLabel     = 63
	maxSubdomain = 253
	maxName      = 63 - len("-peers") // of the longest Service's name
	maxPorts     = 8                  // of an InferencePool
	maxPort      = 65535
	maxReplicas  = 100
	maxImage     = 1024
)

// Validate reports everything that is wrong.
func (o *Options) Validate() error {
	return errors.Join(
		match("namespace", o.Namespace, label, "a name of a namespace, such as inference"),
		match("pool", o.Pool, label, "a name of at most 63 small letters, digits and hyphens, such as chat"),
		o.checkName(),
		o.checkSelector(),
		o.checkPorts(),
		between("replicas", o.Replicas, 1, maxReplicas),
		oneOf("preset", o.Preset, score.PresetNames()),
		match("image", o.Image, image, "an image, such as ghcr.io/eppctl/eppctl:1.2.3"),
		match("cpu", o.CPU, cpu, "an amount of processors, such as 500m or 2"),
		match("memory", o.Memory, memory, "an amount of memory from 256Mi on, such as 2Gi or 1500Mi"),
		o.checkSecrets(),
		o.checkGateway(),
		oneOf("monitor", o.Monitor, Monitors),
		match("prometheus-namespace", o.PrometheusNamespace, label, "a name of a namespace, such as monitoring"),
		o.checkKinds(),
	)
}

func match(flag, got string, form *regexp.Regexp, want string) error {
	if form.MatchString(got) {
		return nil
	}
	if got == "" {
		return fmt.Errorf("--%s: is missing; give %s", flag, want)
	}
	return fmt.Errorf("--%s: %q is not %s", flag, got, want)
}

func between(flag string, got, low, high int) error {
	if got >= low && got <= high {
		return nil
	}
	return fmt.Errorf("--%s: must be from %d to %d, got %d", flag, low, high, got)
}

func oneOf(flag, got string, values []string) error {
	if slices.Contains(values, got) {
		return nil
	}
	return fmt.Errorf("--%s: there is no %q, only %s", flag, got, strings.Join(values, ", "))
}

func (o *Options) checkName() error {
	if !label.MatchString(o.Pool) && o.Name == "" {
		return nil // one complaint is enough
	}
	if name := o.name(); len(name) > maxName || !serviceDNS.MatchString(name) {
		return fmt.Errorf("--name: %q is no name of a Service: at most %d small letters, digits and hyphens, a letter first; give --name a short one", name, maxName)
	}
	return nil
}

// checkSelector needs one where it is used: of the pool, and of who may report.
func (o *Options) checkSelector() error {
	if len(o.Selector) == 0 && (o.keeps("InferencePool") || (o.ReportTokenSecret != "" || o.RestrictEgress) && o.keeps("NetworkPolicy")) {
		return errors.New("--selector: the labels of the model servers' pods are missing; give them as app=vllm,…")
	}
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(o.Selector)) {
		if !labelKey.MatchString(key) {
			problems = append(problems, fmt.Errorf("--selector: %q is no name of a label", key))
		}
		if v := o.Selector[key]; v != "" && !labelText.MatchString(v) {
			problems = append(problems, fmt.Errorf("--selector: %q is no value of a label, of %s", v, key))
		}
	}
	if o.selectsPicker() {
		problems = append(problems, errors.New("--selector: it means the picker's own pods too; give a label that the model servers alone have"))
	}
	return errors.Join(problems...)
}

// selectsPicker reports whether the picker's pods have all labels of the pool's.
func (o *Options) selectsPicker() bool {
	own := map[string]string{nameLabel: chartName, instanceLabel: o.name(), poolLabel: o.Pool}
	for key, value := range o.Selector {
		if v, has := own[key]; !has || v != value {
			return false
		}
	}
	return len(o.Selector) > 0
}

func (o *Options) checkPorts() error {
	if n := len(o.TargetPorts); n < 1 || n > maxPorts {
		return fmt.Errorf("--target-port: a pool has 1 to %d, got %d", maxPorts, n)
	}
	var problems []error
	for i, port := range o.TargetPorts {
		problems = append(problems, between("target-port", port, 1, maxPort))
		if slices.Contains(o.TargetPorts[:i], port) {
			problems = append(problems, fmt.Errorf("--target-port: %d is given twice", port))
		}
	}
	return errors.Join(problems...)
}

func (o *Options) checkSecrets() error {
	var problems []error
	if o.ReportTokenSecret != "" {
		problems = append(problems, checkSubdomain("report-token-secret", o.ReportTokenSecret))
	}
	if o.TLSSecret != "" {
		problems = append(problems, checkSubdomain("tls-secret", o.TLSSecret))
		if o.Plaintext && !o.AdminAuth && o.ReportTokenSecret == "" {
			problems = append(problems, errors.New("--tls-secret: nothing speaks TLS: leave out --plaintext, or give --report-token-secret or --admin-auth"))
		}
	}
	return errors.Join(problems...)
}

func checkSubdomain(flag, name string) error {
	if len(name) > maxSubdomain {
		return fmt.Errorf("--%s: longer than %d characters", flag, maxSubdomain)
	}
	return match(flag, name, subdomain, "a name of small letters, digits, hyphens and dots")
}

func (o *Options) checkGateway() error {
	var problems []error
	namespace, name := o.gateway()
	if o.Gateway != "" {
		problems = append(problems, checkSubdomain("gateway", name))
		if strings.Contains(o.Gateway, "/") {
			problems = append(problems, match("gateway", namespace, label, "a name of a namespace before the /"))
		}
	}
	if o.GatewayClass != "" {
		problems = append(problems, oneOf("gateway-class", o.GatewayClass, GatewayClasses))
		if o.GatewayClass == "kgateway" && o.Plaintext {
			problems = append(problems, errors.New("--plaintext: kgateway speaks TLS to a picker, and nothing else"))
		}
		if strings.Contains(o.Gateway, "/") {
			problems = append(problems, errors.New("--gateway: with --gateway-class the Gateway is made in the pool's namespace; give its name alone"))
		}
	}
	return errors.Join(problems...)
}

func (o *Options) checkKinds() error {
	var problems []error
	check := func(flag string, kinds []string) {
		for _, kind := range kinds {
			if !slices.ContainsFunc(Kinds(), func(k string) bool { return strings.EqualFold(k, kind) }) {
				problems = append(problems, oneOf(flag, kind, Kinds()))
			}
		}
	}
	check("only", o.Only)
	check("skip", o.Skip)
	return errors.Join(problems...)
}

// keeps reports whether objects of a kind are wanted.
func (o *Options) keeps(kind string) bool {
	is := func(k string) bool { return strings.EqualFold(k, kind) }
	return (len(o.Only) == 0 || slices.ContainsFunc(o.Only, is)) && !slices.ContainsFunc(o.Skip, is)
}
