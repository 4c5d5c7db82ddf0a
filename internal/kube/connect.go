package kube

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/eppctl/eppctl/internal/buildinfo"
)

// ConnectOptions say which cluster is meant and who asks. They are kubectl's flags of the
// same names, but for KubeServer, whose flag is --kube-server; "" is not given.
type ConnectOptions struct {
	Kubeconfig, Context, Cluster, User, Namespace   string
	KubeServer, TLSServerName, CertificateAuthority string
	Insecure                                        bool // no check of the server's certificate
	Token, ClientCertificate, ClientKey             string
	As, AsUID                                       string
	AsGroups                                        []string
	RequestTimeout                                  time.Duration // of one request that is no watch; 0 = none
	Unattended                                      bool          // no program that gets credentials may ask for anything
}

// Cluster is a connection to an API server. It is safe for concurrent use.
type Cluster struct {
	// Namespace is the one that was given, else the context's, else the pod's own,
	// else "default".
	Namespace string
	// Context is the kubeconfig's, "" in a cluster.
	Context string
	// NamespaceGiven: the namespace was given, it is not a default.
	NamespaceGiven bool

	config *rest.Config
	given  []string // of kubectl's flags, those that commands to type repeat
}

// quieten keeps client-go from logging in a form of its own: what counts is in the
// errors that it returns.
var quieten = sync.OnceFunc(func() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) })

// NoConfigError says that nothing tells where a cluster is.
type NoConfigError struct{ Err error }

// Error implements error.
func (e *NoConfigError) Error() string { return "no cluster is known: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *NoConfigError) Unwrap() error { return e.Err }

// Connect finds the cluster as kubectl does: the file of --kubeconfig, else those of
// $KUBECONFIG, else ~/.kube/config, and in a pod without any of them its service
// account. Nothing is asked yet. The error is a [*NoConfigError] when there is none.
func Connect(s ConnectOptions) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.Kubeconfig
	rules.WarnIfAllMissing = false
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, s.overrides())
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err), errors.Is(err, rest.ErrNotInCluster):
		return nil, noCluster(loader, s, rules.Precedence)
	case err != nil:
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	quieten()
	c := &Cluster{config: config, given: s.repeated()}
	if c.Namespace, c.NamespaceGiven, err = loader.Namespace(); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	c.NamespaceGiven = s.Namespace != ""
	if err := (Name{c.Namespace, "any"}).Check(); err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	if raw, err := loader.RawConfig(); err == nil {
		c.Context = cmp.Or(s.Context, raw.CurrentContext)
		if err := s.checkUser(&raw, c.Context); err != nil {
			return nil, err
		}
	}
	if s.Unattended && config.ExecProvider != nil {
		config.ExecProvider.StdinUnavailable, config.ExecProvider.StdinUnavailableMessage = true, "nobody is asked here"
	}
	config.UserAgent = "eppctl/" + buildinfo.Read().Version
	config.QPS, config.Burst = -1, -1 // the server has its own fairness; what is asked here is bounded by what is watched
	config.Timeout = s.RequestTimeout
	config.WarningHandler = rest.NoWarnings{} // such as that v1alpha2 is old
	return c, nil
}

// repeated are the flags that say which cluster is meant and who asks, but for the
// context and what is secret.
func (s *ConnectOptions) repeated() (flags []string) {
	for _, f := range [...]struct{ name, value string }{
		{"--kubeconfig", s.Kubeconfig},
		{"--cluster", s.Cluster},
		{"--user", s.User},
		{"--server", s.KubeServer},
		{"--tls-server-name", s.TLSServerName},
		{"--certificate-authority", s.CertificateAuthority},
		{"--as", s.As},
	} {
		if f.value != "" {
			flags = append(flags, f.name, f.value)
		}
	}
	for _, group := range s.AsGroups {
		flags = append(flags, "--as-group", group)
	}
	return flags
}

// checkUser refuses a context whose user is not there, when nothing else says who asks:
// client-go would ask as nobody.
func (s *ConnectOptions) checkUser(raw *clientcmdapi.Config, context string) error {
	of := raw.Contexts[context]
	if of == nil || of.AuthInfo == "" || raw.AuthInfos[of.AuthInfo] != nil || s.User+s.Token+s.ClientCertificate != "" {
		return nil
	}
	return fmt.Errorf("kubeconfig: the context %q is of the user %q, which is not there", context, of.AuthInfo)
}

// noCluster says why no cluster is named: by a context, or by anything.
func noCluster(loader clientcmd.ClientConfig, s ConnectOptions, files []string) error {
	if raw, err := loader.RawConfig(); err == nil {
		name := cmp.Or(s.Context, raw.CurrentContext)
		if of := raw.Contexts[name]; of != nil {
			return fmt.Errorf("kubeconfig: the context %q is of the cluster %q, which is not there or has no address", name, cmp.Or(s.Cluster, of.Cluster))
		}
	}
	inside := "this is no pod"
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		inside = "this pod has no token of a service account"
	}
	return &NoConfigError{fmt.Errorf("no kubeconfig names one, and %s; looked at %s", inside, named(files))}
}

func (s *ConnectOptions) overrides() *clientcmd.ConfigOverrides {
	return &clientcmd.ConfigOverrides{
		CurrentContext: s.Context,
		Context:        clientcmdapi.Context{Cluster: s.Cluster, AuthInfo: s.User, Namespace: s.Namespace},
		ClusterInfo: clientcmdapi.Cluster{
			Server: s.KubeServer, TLSServerName: s.TLSServerName, CertificateAuthority: s.CertificateAuthority, InsecureSkipTLSVerify: s.Insecure,
		},
		AuthInfo: clientcmdapi.AuthInfo{
			Token: s.Token, ClientCertificate: s.ClientCertificate, ClientKey: s.ClientKey,
			Impersonate: s.As, ImpersonateUID: s.AsUID, ImpersonateGroups: s.AsGroups,
		},
	}
}

// Server is the API server's URL.
func (c *Cluster) Server() string { return c.config.Host }

// String is what a command says of where it looks.
func (c *Cluster) String() string {
	if c.Context == "" {
		return "cluster " + c.Server()
	}
	return "context " + c.Context
}
