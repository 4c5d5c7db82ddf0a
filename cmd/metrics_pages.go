package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/metricview"
	"github.com/eppctl/eppctl/internal/scrape"
)

// pagesAt are the addresses of pages, and the way there.
type pagesAt struct {
	addresses []string
	transport http.RoundTripper // nil = the usual
	done      func()
}

// find finds the pages: as given, as the pickers tell, or as the pods of one do.
func (f *metricsFlags) find(ctx context.Context, s *cli.Streams, urls []string) (*pagesAt, error) {
	given := append(append([]string{}, urls...), f.urls...)
	where := &pagesAt{done: func() {}}
	for _, text := range given {
		page, err := scrape.URL(strings.TrimSpace(text))
		if err != nil {
			return nil, cli.WithHint(err, cli.ExitUsage, "")
		}
		where.addresses = append(where.addresses, page)
	}
	if len(given) == 0 {
		return f.askPickers(ctx, s)
	}
	return where, once(where.addresses)
}

// once refuses a page that is given twice: it would count double.
func once(pages []string) error {
	for i, page := range pages {
		if slices.Contains(pages[:i], page) {
			return cli.WithHint(fmt.Errorf("%s is given twice, and would count double", page), cli.ExitUsage, "give each replica once")
		}
	}
	return nil
}

// askPickers asks each picker's admin API where its metrics are. In a cluster the pods
// tell.
func (f *metricsFlags) askPickers(ctx context.Context, s *cli.Streams) (*pagesAt, error) {
	found, err := f.in.pickers(ctx, s, f.servers, false)
	if err != nil {
		return nil, adminError(err)
	}
	if replicas := found.replicas; replicas != nil {
		if replicas.kind != kube.KindEppctl {
			fmt.Fprintln(s.Err, cli.Sanitize(replicas.told(replicas.picker.Running(), byForward)))
		}
		return &pagesAt{addresses: replicas.pages(), transport: replicas.transport, done: found.close}, nil
	}
	defer found.close()
	where := &pagesAt{done: func() {}}
	for _, client := range found.clients {
		page, err := metricsPage(ctx, client)
		if err != nil {
			return nil, err
		}
		where.addresses = append(where.addresses, page)
	}
	return where, once(where.addresses)
}

// adminError says that there is another way to the metrics.
func adminError(err error) error {
	if cli.Status(err) != cli.ExitUnreachable {
		return err
	}
	return cli.WithHint(err, cli.ExitUnreachable, "for a picker without an admin API, or another one, give the address of its metrics: --metrics-url")
}

func metricsPage(ctx context.Context, client *admin.Client) (string, error) {
	doc, err := client.Config(ctx)
	if err != nil {
		return "", adminError(clientError(err))
	}
	var in struct {
		Config struct {
			Addresses struct{ Metrics string }
		}
	}
	raw, err := json.Marshal(doc.Config)
	if err == nil {
		err = json.Unmarshal(raw, &in)
	}
	if err != nil {
		return "", fmt.Errorf("read the configuration of %s: %w", client.Server(), err)
	}
	page, err := pageAddress(client.Server(), in.Config.Addresses.Metrics)
	if err != nil {
		return "", cli.WithHint(fmt.Errorf("the picker at %s: %w", client.Server(), err), cli.ExitUnreachable,
			"start it with --metrics-addr 0.0.0.0:9090, or forward the port (kubectl port-forward) and give --metrics-url")
	}
	return page, nil
}

// pageAddress is the address of the page of a picker that is reached at server and
// says that its metrics listen at an address.
func pageAddress(server, listens string) (string, error) {
	if listens == "" {
		return "", errors.New("it has no metrics page")
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("its address %q is none: %w", server, err)
	}
	host, port, err := net.SplitHostPort(listens)
	if err != nil {
		return "", fmt.Errorf("its metrics listen at %q, which is no address", listens)
	}
	switch ip, err := netip.ParseAddr(host); {
	case host == "", err == nil && ip.IsUnspecified():
		host = u.Hostname()
	case err == nil && ip.IsLoopback() && !isLoopback(u.Hostname()):
		return "", fmt.Errorf("its metrics listen at %s, which only its own host reaches", listens)
	}
	return scrape.URL("http://" + net.JoinHostPort(host, port))
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// maxToken bounds a file with a token, in bytes.
const maxToken = 64 << 10

// readToken reads the token that is sent from the file of a flag, none for no file. It
// stands in no error.
func readToken(flag, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	file, err := os.Open(name)
	if err != nil {
		return "", cli.WithHint(fmt.Errorf("--%s: %w", flag, err), cli.ExitUsage, "make one: kubectl create token SERVICE-ACCOUNT > FILE")
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxToken))
	if err != nil {
		return "", cli.WithHint(fmt.Errorf("--%s: %w", flag, err), cli.ExitUsage, "")
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", cli.WithHint(fmt.Errorf("--%s: %s holds no token, which is one word", flag, name), cli.ExitUsage, "")
	}
	return token, nil
}

// runFiles prints what saved pages say.
func (f *metricsFlags) runFiles(s *cli.Streams, out *metricsPrinter) error {
	if err := once(f.files); err != nil {
		return err
	}
	seen := metricview.Observation{Now: s.Now()}
	for _, name := range f.files {
		page, err := readPage(s, name)
		if err != nil {
			return err
		}
		seen.Replicas = append(seen.Replicas, metricview.Replica{After: page})
	}
	return out.print(seen)
}

func readPage(s *cli.Streams, name string) (*metricview.Page, error) {
	in := s.In
	if name != "-" {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, cli.WithHint(err, cli.ExitNotFound, "save a page with 'eppctl metrics -o prom > FILE', or with curl")
		}
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	page, err := scrape.ReadFrom(in, name)
	if _, ok := errors.AsType[*scrape.Error](err); ok {
		return nil, cli.WithHint(err, cli.ExitError, "a page in Prometheus' text format is read, as /metrics gives it")
	}
	return page, err
}

// pageError gives an error of reading a page its exit status and a hint.
func pageError(err error) error {
	if _, ok := errors.AsType[*kube.StepError](err); ok {
		return stepError(err)
	}
	e, ok := errors.AsType[*scrape.Error](err)
	if !ok {
		return err
	}
	code := cli.ExitUnreachable
	if e.Kind == scrape.Forbidden || e.Kind == scrape.Refused {
		code = cli.ExitError
	}
	return cli.WithHint(err, code, e.Hint())
}

// lookError gives an error of understanding pages its exit status and a hint.
func lookError(err error) error {
	if _, ok := errors.AsType[*metricview.MixedError](err); ok {
		return cli.WithHint(err, cli.ExitUsage, "replicas of one picker are added up; ask for others one by one")
	}
	if _, ok := errors.AsType[*metricview.StrangerError](err); ok {
		return cli.WithHint(err, cli.ExitUnreachable, "a picker's page is at port 9090, an engine's at its own port; single series: eppctl metrics '*' with the same address")
	}
	return err
}

// seriesError gives an error of picking series its exit status and a hint.
func seriesError(err error) error {
	e, ok := errors.AsType[*metricview.NoSeriesError](err)
	if !ok {
		return err
	}
	hint := "see what there is: eppctl metrics '*'"
	if len(e.Near) > 0 {
		hint = "like it are " + strings.Join(e.Near, ", ")
	}
	return cli.WithHint(err, cli.ExitNotFound, hint)
}
