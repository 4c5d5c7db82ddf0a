package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/metricview"
	"github.com/eppctl/eppctl/internal/scrape"
)

const (
	// unaskedTimeout bounds the search of a cluster that nobody named.
	unaskedTimeout = 5 * time.Second
	// kindTimeout bounds the question whose picker it is.
	kindTimeout = 5 * time.Second
)

// poolFlags say which pool's picker is meant, in which cluster.
type poolFlags struct {
	pool      string
	tokenFile string
	cluster   clusterFlags
}

func (f *poolFlags) register(c *cobra.Command) {
	flagGroup(c, clusterHeading, func(fs *pflag.FlagSet) {
		fs.StringVar(&f.pool, "pool", "", "ask the picker of this InferencePool: `[NAMESPACE/]NAME` (default: the only one of the namespace)")
		fs.StringVar(&f.tokenFile, adminTokenFlag, "", "show the bearer token in this `FILE` to a picker that serves its admin API with --admin-auth")
		f.cluster.register(fs)
	})
	_ = c.Flags().SetAnnotation("pool", noVariableKey, []string{"true"}) // EPPCTL_POOL is of a picker itself
	_ = c.RegisterFlagCompletionFunc("pool", f.completePool)
	f.cluster.completions(c)
}

// adminTokenFlag names the flag with the token for pickers. It is none of the
// kubeconfig's: that is shown to nobody but the API server.
const adminTokenFlag = "admin-token-file"

// given reports whether a cluster is asked for.
func (f *poolFlags) given() bool {
	return f.pool != "" || f.cluster.flags != nil && f.cluster.given()
}

// flags are those that were given, to be repeated in a command that is suggested.
func (f *poolFlags) flags() []string {
	if f.pool == "" {
		return f.cluster.repeated()
	}
	return append([]string{"--pool", f.pool}, f.cluster.repeated()...)
}

// repeated are the flags that were given, but for these and a token.
func (f *clusterFlags) repeated(but ...string) (out []string) {
	if f.flags == nil {
		return nil
	}
	f.flags.Visit(func(flag *pflag.Flag) {
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			switch {
			case flag.Name == "token", slices.Contains(but, flag.Name):
			case flag.Value.Type() == "bool":
				out = append(out, "--"+flag.Name+"="+v)
			default:
				out = append(out, "--"+flag.Name, v)
			}
		}
	})
	return out
}

// connect finds the cluster and the name of the pool.
func (f *poolFlags) connect() (*kube.Cluster, kube.Name, error) {
	c, err := f.cluster.connect()
	if err != nil {
		return nil, kube.Name{}, err
	}
	name, err := c.ParsePool(f.pool)
	if err != nil {
		err = cli.WithHint(fmt.Errorf("--pool: %w", err), cli.ExitUsage, "give --pool NAMESPACE/NAME, or --pool NAME with -n NAMESPACE")
	}
	return c, name, err
}

// find goes from the pool to its picker.
func (f *poolFlags) find(ctx context.Context) (*replicas, error) {
	cluster, name, err := f.connect()
	if err != nil {
		return nil, err
	}
	token, err := readToken(adminTokenFlag, f.tokenFile)
	if err != nil {
		return nil, err
	}
	picker, err := cluster.FindPicker(ctx, name)
	if err != nil {
		return nil, stepError(err)
	}
	return newReplicas(ctx, cluster, picker, token)
}

// connect finds the cluster. Nothing is asked of it yet.
func (f *clusterFlags) connect() (*kube.Cluster, error) {
	set, err := f.options()
	if err != nil {
		return nil, err
	}
	c, err := kube.Connect(set)
	if _, none := errors.AsType[*kube.NoConfigError](err); none {
		return nil, cli.WithHint(err, cli.ExitUnreachable, "give --kubeconfig FILE; a picker without a cluster: eppctl top --server HOST:PORT")
	}
	if err == nil {
		return c, nil
	}
	if names, listed := kube.Contexts(set.Kubeconfig); listed == nil && set.Context != "" && !slices.Contains(names, set.Context) {
		return nil, cli.WithHint(fmt.Errorf("--context: there is no context %q", set.Context), cli.ExitUsage, "there are "+strings.Join(names, ", "))
	}
	if missing, ok := errors.AsType[*fs.PathError](err); ok && missing.Path == set.Kubeconfig {
		return nil, cli.WithHint(err, cli.ExitUsage, "give --kubeconfig as the path of a file, or leave it out for $KUBECONFIG or ~/.kube/config")
	}
	return nil, cli.WithHint(err, cli.ExitUsage, "see: kubectl config view")
}

// stepError gives an error on the way to a picker its exit status and a hint.
func stepError(err error) error {
	e, ok := errors.AsType[*kube.StepError](err)
	if !ok {
		return err
	}
	switch e.Trouble {
	case kube.Missing:
		return cli.WithHint(e, cli.ExitNotFound, e.Hint)
	case kube.Closed:
		return cli.WithHint(e, cli.ExitUnreachable, "eppctl's admin API is at --admin-addr (9091), its metrics and those of llm-d's picker at 9090; it may be starting\n"+e.Hint)
	case kube.Unreachable:
		return cli.WithHint(e, cli.ExitUnreachable, e.Hint)
	case kube.Forbidden, kube.Unfit:
	}
	return cli.WithHint(e, cli.ExitError, e.Hint)
}

// replicas is a pool's picker in a cluster: its replicas, and the way to them.
type replicas struct {
	cluster   *kube.Cluster
	pool      kube.Name
	service   string       // of the picker; as a host it stands for the best replica there is
	picker    *kube.Picker // as it was found last; of the goroutine that asks
	kind      kube.PickerKind
	token     string // for the admin API of a picker that wants one
	tunnel    *kube.Tunnel
	transport http.RoundTripper
}

// newReplicas makes the way to the replicas. When their pods don't tell whose picker they
// run, they are asked.
func newReplicas(ctx context.Context, cluster *kube.Cluster, picker *kube.Picker, token string) (*replicas, error) {
	r := &replicas{cluster: cluster, pool: picker.Pool, service: picker.Service, picker: picker, kind: picker.Kind, token: token}
	r.tunnel = cluster.NewTunnel(r.pool.Namespace, r.resolve)
	r.transport = r.tunnel.Transport()
	if r.kind != kube.KindUnknown {
		return r, nil
	}
	if err := r.ask(ctx); err != nil {
		r.close()
		return nil, clientError(err)
	}
	return r, nil
}

// ask finds out whose picker it is.
func (r *replicas) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kindTimeout)
	defer cancel()
	pod := r.picker.Running()[0]
	client, err := r.client(pod.Name, pod)
	if err != nil {
		return err
	}
	_, err = client.Version(ctx)
	if err == nil {
		r.kind = kube.KindEppctl
		return nil
	}
	pages := scrape.NewClient(scrape.Options{Clock: clock.Wall{}, Timeout: kindTimeout, Transport: r.transport})
	page, pageErr := pages.Read(ctx, metricsAddress(pod))
	guarded, _ := errors.AsType[*scrape.Error](pageErr)
	switch {
	case pageErr == nil && page.Maker() == metricview.LLMD, guarded != nil && guarded.Kind == scrape.Forbidden:
		r.kind = kube.KindLLMD // ours asks for no token
		return nil
	}
	return err
}

// resolve makes a pod's name of the host of an address.
func (r *replicas) resolve(ctx context.Context, host string) (string, error) {
	if host != r.service {
		return host, nil
	}
	picker, err := r.cluster.FindPicker(ctx, r.pool)
	if err != nil {
		return "", err
	}
	return picker.Running()[0].Name, nil
}

// again finds the replicas that there are now.
func (r *replicas) again(ctx context.Context) error {
	picker, err := r.cluster.FindPicker(ctx, r.pool)
	if err == nil {
		r.picker = picker
	}
	return err
}

func (r *replicas) close() {
	r.transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	r.tunnel.Close()
}

// address is what a port of a pod is called.
func address(pod string, port int) string {
	return "http://" + net.JoinHostPort(pod, strconv.Itoa(port))
}

func metricsAddress(pod kube.PickerPod) string {
	return address(pod.Name, pod.MetricsPort) + "/metrics"
}

// client is of the admin API at a host that is like a pod.
func (r *replicas) client(host string, like kube.PickerPod) (*admin.Client, error) {
	opts, base := admin.ClientOptions{Transport: r.transport, Hint: r.wayOn(like)}, address(host, like.AdminPort)
	if like.AdminAuth {
		opts.Token, base = r.token, strings.Replace(base, "http:", "https:", 1)
	}
	return admin.NewClient(base, opts)
}

// wayOn says what to try where a pod does not answer as a picker.
func (r *replicas) wayOn(pod kube.PickerPod) string {
	return fmt.Sprintf("is port %d that of its admin API (--admin-addr)? See: %s", pod.AdminPort,
		r.cluster.Kubectl("logs", pod.Name, "-n", r.pool.Namespace, "-c", pod.Container))
}

// clients are of the admin APIs of all replicas that run.
func (r *replicas) clients() ([]*admin.Client, error) {
	var clients []*admin.Client
	for _, pod := range r.picker.Running() {
		client, err := r.client(pod.Name, pod)
		if err != nil {
			return nil, err
		}
		clients = append(clients, client)
	}
	return clients, nil
}

// pages are the metrics pages of all replicas that run.
func (r *replicas) pages() []string {
	var pages []string
	for _, pod := range r.picker.Running() {
		pages = append(pages, metricsAddress(pod))
	}
	return pages
}

// told is how the replicas are named on standard error; by is the way to them.
func (r *replicas) told(pods []kube.PickerPod, by string) string {
	var names []string
	ready := false
	for _, pod := range pods {
		names, ready = append(names, pod.Name), ready || pod.Ready
	}
	text := "picker " + names[0]
	if len(names) > 1 {
		text = "pickers " + strings.Join(names, ", ")
	}
	if r.kind == kube.KindLLMD {
		text = "llm-d's " + text
	}
	if !ready {
		by += "; not ready"
	}
	return fmt.Sprintf("%s of pool %s (%s, %s)", text, r.pool, r.cluster, by)
}

// byForward is the way to a port of a pod.
const byForward = "port-forward"
