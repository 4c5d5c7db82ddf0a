package cmd

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube"
)

// clusterHeading is what the flags of [clusterFlags] stand under on help pages.
const clusterHeading = "Cluster"

// clusterFlags say which cluster is meant, and who asks. They are kubectl's, with
// kubectl's meaning; only the address of the API server is --kube-server, since
// --server is a picker's.
type clusterFlags struct {
	set            kube.ConnectOptions
	requestTimeout string
	flags          *pflag.FlagSet // these alone
}

func (f *clusterFlags) register(fs *pflag.FlagSet) {
	own, s := pflag.NewFlagSet(clusterHeading, pflag.ContinueOnError), &f.set
	own.SortFlags = false
	own.StringVarP(&s.Namespace, "namespace", "n", "", "`NAME` of the namespace (default: the context's)")
	own.StringVar(&s.Context, "context", "", "`NAME` of the context in the kubeconfig")
	own.StringVar(&s.Kubeconfig, "kubeconfig", "", "`FILE` that tells of clusters (default: $KUBECONFIG, else ~/.kube/config, else the pod's service account)")
	own.StringVar(&s.Cluster, "cluster", "", "`NAME` of the cluster in the kubeconfig")
	own.StringVar(&s.User, "user", "", "`NAME` of the user in the kubeconfig")
	own.StringVar(&s.KubeServer, "kube-server", "", "`URL` of the API server; kubectl's --server")
	own.StringVar(&s.TLSServerName, "tls-server-name", "", "`NAME` that the API server's certificate is checked for")
	own.StringVar(&s.CertificateAuthority, "certificate-authority", "", "`FILE` with the certificate authority of the API server")
	own.BoolVar(&s.Insecure, "insecure-skip-tls-verify", false, "don't check the API server's certificate")
	own.StringVar(&s.Token, "token", "", "bearer `TOKEN` for the API server")
	own.StringVar(&s.ClientCertificate, "client-certificate", "", "`FILE` with the user's certificate")
	own.StringVar(&s.ClientKey, "client-key", "", "`FILE` with the key of --client-certificate")
	own.StringVar(&s.As, "as", "", "`USER` to act as")
	own.StringVar(&s.AsUID, "as-uid", "", "`UID` to act as")
	own.StringArrayVar(&s.AsGroups, "as-group", nil, "`GROUP` to act as; once for each")
	own.StringVar(&f.requestTimeout, "request-timeout", "0", "wait `TIME` for an answer of the API server: 5s, 1m, or seconds; 0 is for ever")
	// kubectl has no variables for these but KUBECONFIG, and a pod may have such for
	// other ends.
	own.VisitAll(func(flag *pflag.Flag) { flag.Annotations = map[string][]string{noVariableKey: {"true"}} })
	fs.AddFlagSet(own)
	f.flags = own
}

// given reports whether a cluster is asked for.
func (f *clusterFlags) given() bool {
	given := false
	f.flags.VisitAll(func(flag *pflag.Flag) { given = given || flag.Changed })
	return given
}

// options are what the flags say.
func (f *clusterFlags) options() (kube.ConnectOptions, error) {
	s := f.set
	var err error
	if s.RequestTimeout, err = parseTimeout(f.requestTimeout); err != nil {
		return s, cli.WithHint(fmt.Errorf("--request-timeout: %w", err), cli.ExitUsage, "examples: 5s, 1m, 30")
	}
	return s, nil
}

// parseTimeout reads kubectl's form: a duration, or whole seconds.
func parseTimeout(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if n, whole := strconv.ParseInt(text, 10, 64); whole == nil && n < math.MaxInt64/int64(time.Second) {
		d, err = time.Duration(n)*time.Second, nil
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is neither a duration nor a number of seconds", text)
	}
	return d, nil
}
