package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/eppctl/eppctl/internal/shell"
)

// Trouble is the kind of a [StepError].
type Trouble int

// The kinds of trouble.
const (
	Missing     Trouble = iota // something that is looked for is not there
	Forbidden                  // the API server knows who asks, and does not allow it; or it does not know
	Unreachable                // the API server, the picker or its pod does not answer
	Closed                     // nothing listens at the pod's port
	Unfit                      // something is there and is not of the kind that is needed
)

// StepError says at which step the way to a picker ended, and what to do about it.
type StepError struct {
	Step    string // what was being done: "list InferencePools of namespace prod"
	Trouble Trouble
	Err     error
	Hint    string
}

// Error implements error.
func (e *StepError) Error() string { return e.Step + ": " + e.Err.Error() }

// Unwrap returns what went wrong.
func (e *StepError) Unwrap() error { return e.Err }

// access is one request to the API server, in the words of its rules.
type access struct {
	verb, resource, namespace, name string // resource as in "pods/log"; namespace "" = all
}

func (a access) String() string {
	text := a.verb + " " + a.resource
	if a.name != "" {
		text += " " + a.name
	}
	if a.namespace == "" {
		return text + " of all namespaces"
	}
	return text + " of namespace " + a.namespace
}

// canI is the command that asks whether it is allowed.
func (c *Cluster) canI(a access) string {
	words := []string{"kubectl", "auth", "can-i", a.verb}
	resource, sub, _ := strings.Cut(a.resource, "/")
	if words = append(words, resource); sub != "" {
		words = append(words, "--subresource="+sub)
	}
	if a.namespace == "" {
		words = append(words, "-A")
	} else {
		words = append(words, "-n", a.namespace)
	}
	return shell.Line(append(words, c.flags()...)...)
}

// flags have kubectl ask the same cluster, as the same user.
func (c *Cluster) flags() []string {
	if c.Context == "" {
		return c.given
	}
	return append([]string{"--context", c.Context}, c.given...)
}

// Kubectl is a command to type next.
func (c *Cluster) Kubectl(words ...string) string {
	return shell.Line(append(append([]string{"kubectl"}, words...), c.flags()...)...)
}

// failed makes a [*StepError] of what a request ended with, or the context's error
// when the caller gave up.
func (c *Cluster) failed(ctx context.Context, a access, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	e := &StepError{Step: a.String(), Err: err}
	switch {
	case apierrors.IsForbidden(err):
		e.Trouble, e.Hint = Forbidden, "ask for a role that allows it, and see: "+c.canI(a)
	case apierrors.IsUnauthorized(err):
		e.Trouble, e.Err = Forbidden, errors.New("the API server does not know who asks (401)")
		e.Hint = "log in again, or give another --context or --token; see: " + c.Kubectl("auth", "whoami")
	case apierrors.IsNotFound(err):
		e.Hint = "see: " + c.Kubectl(a.list()...)
	case isCredentials(err):
		text, more, _ := strings.Cut(innermost(err).Error(), "\n")
		e.Step, e.Trouble, e.Err = "log in to "+c.Server(), Forbidden, errors.New(text)
		e.Hint = "does the program work that the kubeconfig names for it? See: " + c.Kubectl("auth", "whoami") + installHint(more)
	case c.silent(err):
		c.silence(e, err)
	case errors.As(err, new(*strangeError)):
		e.Trouble, e.Err = Unreachable, fmt.Errorf("what answers at %s is no API server: %w", c.Server(), err)
		e.Hint = "is there a proxy in between? See: " + c.Kubectl("cluster-info")
	case strings.HasPrefix(err.Error(), "serializer for "): // client-go has text alone
		_, what, _ := strings.Cut(strings.TrimSuffix(err.Error(), " doesn't exist"), "serializer for ")
		e.Trouble, e.Err = Unreachable, fmt.Errorf("what answers at %s is no API server: it sends %s", c.Server(), what)
		e.Hint = "is there a page to log in at, or a proxy in between? See: " + c.Kubectl("cluster-info")
	default:
		e.Trouble, e.Hint = Unreachable, "see: "+c.Kubectl(a.list()...)
	}
	return e
}

// silence says why an API server can't be spoken to.
func (c *Cluster) silence(e *StepError, err error) {
	e.Trouble, e.Err = Unreachable, fmt.Errorf("the API server at %s does not answer: %w", c.Server(), innermost(err))
	e.Hint = "is it up, and is this the context that you mean? See: " + c.Kubectl("cluster-info") + "\n" +
		"a picker without a cluster: eppctl top --server HOST:PORT"
	op, _ := errors.AsType[*net.OpError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	late, _ := errors.AsType[net.Error](err)
	stray, _ := errors.AsType[*strayError](err)
	switch {
	case stray != nil:
		e.Err = fmt.Errorf("what answers at %s is no API server: %w, which is not shown the credentials", c.Server(), stray)
		e.Hint = "is there a page to log in at, or is that the API server? Then give its address as --kube-server; see: " + c.Kubectl("cluster-info")
	case untrusted:
		e.Err = fmt.Errorf("the API server at %s can't be trusted: %w", c.Server(), innermost(err))
		e.Hint = "is this the certificate authority of that cluster? It is in the kubeconfig, or --certificate-authority; another name: --tls-server-name"
	case op != nil && op.Op == "proxyconnect":
		e.Err = fmt.Errorf("the proxy on the way to the API server at %s does not answer: %w", c.Server(), op.Err)
		e.Hint = "it is named by proxy-url in the kubeconfig, or by HTTPS_PROXY; NO_PROXY names what is reached without one"
	case late != nil && late.Timeout() && c.config.Timeout > 0:
		e.Err = fmt.Errorf("the API server at %s does not answer in %s, as --request-timeout says", c.Server(), c.config.Timeout)
	}
}

// list is kubectl's command for what was asked for.
func (a access) list() []string {
	resource, _, _ := strings.Cut(a.resource, "/")
	if a.namespace == "" {
		return []string{"get", resource, "-A"}
	}
	return []string{"get", resource, "-n", a.namespace}
}

// silent reports whether no API server answered.
func (c *Cluster) silent(err error) bool {
	_, isURL := errors.AsType[*url.Error](err)
	_, isNet := errors.AsType[net.Error](err)
	return isURL || isNet || errors.Is(err, context.DeadlineExceeded)
}

// isCredentials reports whether a program failed that gets credentials: nothing was
// sent. client-go has text alone for it.
func isCredentials(err error) bool {
	return strings.HasPrefix(innermost(err).Error(), "getting credentials: ")
}

// installHint is what a kubeconfig says of a program that is not there, at the end of
// client-go's own words.
func installHint(text string) string {
	at := strings.LastIndex(text, "\n\n")
	if at < 0 || strings.Contains(text[at:], "https://kubernetes.io/docs/") {
		return ""
	}
	return "\n" + strings.TrimSpace(text[at:])
}

// innermost takes the URL of a request off its error.
func innermost(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// Contexts lists the contexts of the kubeconfig that [Connect] would read.
func Contexts(kubeconfig string) ([]string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	rules.WarnIfAllMissing = false
	config, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	var names []string
	for name := range config.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// maxNamed bounds what a hint lists.
const maxNamed = 10

// named is a list for a hint.
func named(names []string) string {
	if len(names) > maxNamed {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", len(names)-maxNamed)
	}
	return strings.Join(names, ", ")
}

// near are the names that another may be misspelt for, the nearest first.
func near(name string, names []string) []string {
	most := max(1, len(name)/4)
	apart := func(other string) int { return distance(name, other) }
	out := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return apart(other) > most })
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(apart(a), apart(b)) })
	return out[:min(len(out), 3)]
}

// distance is how many letters have to be put in, taken out or replaced, or swapped
// with the next, to make one name of another.
func distance(a, b string) int {
	var last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, was := last, row
		row = make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			changed := was[j]
			if a[i] != b[j] {
				changed++
			}
			row[j+1] = min(changed, was[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		last = was
	}
	return row[len(b)]
}
