package serve

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/engine"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/pool"
)

// ParseEndpoint reads an endpoint in the form name=http://host:port.
func ParseEndpoint(text string) (pool.Member, error) {
	name, address, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return pool.Member{}, fmt.Errorf("endpoint %q: must have the form name=http://host:port", withoutUser(text))
	}
	m, err := member(name, address)
	if err != nil {
		return m, fmt.Errorf("endpoint %q: %w", name, err)
	}
	return m, nil
}

func member(name, base string) (pool.Member, error) {
	if err := checkName(name); err != nil {
		return pool.Member{}, err
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return pool.Member{}, fmt.Errorf("%q must have the form http://host:port", withoutUser(base))
	}
	port := cmp.Or(u.Port(), "80")
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return pool.Member{}, fmt.Errorf("%q: the port must be between 1 and 65535", base)
	}
	address := net.JoinHostPort(u.Hostname(), port)
	return pool.Member{Name: name, Address: address, URL: "http://" + address}, nil
}

// maxName bounds the name of an endpoint, as that of a pod in Kubernetes is.
const maxName = 253

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("name must not be empty")
	case len(name) > maxName:
		return fmt.Errorf("name must be at most %d bytes long, got %d", maxName, len(name))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("name %q must be printable", name)
	}
	return nil
}

// withoutUser leaves out of a URL what may be a password.
func withoutUser(text string) string {
	end := strings.LastIndex(text, "@")
	if end < 0 {
		return text
	}
	begin := 0
	if i := strings.Index(text[:end], "://"); i >= 0 {
		begin = i + len("://")
	}
	return text[:begin] + "…" + text[end:]
}

// endpointsFile is the form of the file of --endpoints.
type endpointsFile struct {
	Endpoints *[]struct {
		Name        string            `json:"name"`
		URL         string            `json:"url"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		MaxRunning  int               `json:"maxRunning"`
		Engine      string            `json:"engine"`
		GPUMetrics  string            `json:"gpuMetrics"`
		Events      string            `json:"events"`
		Replay      string            `json:"replay"`
		NotReady    bool              `json:"notReady"`
		Terminating bool              `json:"terminating"`
	} `json:"endpoints"`
}

// maxEndpointsFile bounds the file of --endpoints.
const maxEndpointsFile = 4 << 20

func readEndpoints(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // to open a pipe may take for ever
		return nil, errors.New("is not a file, which can be read again when it changes")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxEndpointsFile+1))
	if err == nil && len(b) > maxEndpointsFile {
		err = fmt.Errorf("larger than %d bytes", maxEndpointsFile)
	}
	return b, err
}

// ParseEndpoints reads the file of --endpoints: YAML or JSON with a list of
// endpoints, each with a name and a URL.
func ParseEndpoints(b []byte) ([]pool.Member, error) {
	var file endpointsFile
	if err := yaml.UnmarshalStrict(b, &file); err != nil {
		return nil, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "error unmarshaling JSON: "))
	}
	if file.Endpoints == nil { // empty, or not written to its end
		return nil, errors.New("there is no list of endpoints; a pool without any is written as 'endpoints: []'")
	}
	var problems []error
	members := make([]pool.Member, 0, len(*file.Endpoints))
	for i, e := range *file.Endpoints {
		m, err := member(e.Name, e.URL)
		if err != nil {
			problems = append(problems, fmt.Errorf("endpoints[%d]: %w", i, err))
		}
		m.Labels, m.Annotations, m.MaxRunning = e.Labels, e.Annotations, e.MaxRunning
		m.NotReady, m.Terminating = e.NotReady, e.Terminating
		m.Engine, m.GPUURL, m.Events, m.Replay = e.Engine, e.GPUMetrics, e.Events, e.Replay
		for _, err := range []error{checkSources(&m), checkEvents(&m)} {
			if err != nil {
				problems = append(problems, fmt.Errorf("endpoints[%d]: %w", i, err))
			}
		}
		members = append(members, m)
	}
	return members, errors.Join(problems...)
}

// checkSources checks where an endpoint's numbers are said to come from.
func checkSources(m *pool.Member) error {
	if m.MaxRunning < 0 {
		return errors.New("maxRunning: must be a number from 1 on, or left out when it is not known")
	}
	if m.Engine != "" && !engine.Known(m.Engine) {
		return fmt.Errorf("engine %q: must be vllm, sglang or trtllm, or left out to go by the metrics page", m.Engine)
	}
	if m.GPUURL == "" {
		return nil
	}
	u, err := url.Parse(m.GPUURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("gpuMetrics: must be the URL of a DCGM exporter's page, such as http://10.0.0.1:9400/metrics, without a user")
	}
	return nil
}

// CheckEndpoints checks what --endpoint and the file of --endpoints name ("" is
// none) as [New] does with a configuration.
func CheckEndpoints(texts []string, file string, c *config.Config) error {
	var fixed []pool.Member
	var problems []error
	for _, text := range texts {
		m, err := ParseEndpoint(text)
		fixed, problems = append(fixed, m), append(problems, err)
	}
	check := func(m []pool.Member) error {
		return checkMembers(slices.Concat(fixed, m), !c.Events.Enabled || c.Events.Listen != "")
	}
	switch err := errors.Join(problems...); {
	case err != nil:
		return err
	case file == "":
		return check(nil)
	}
	return (&endpointsWatch{path: file, set: check}).load()
}

// checkMembers checks endpoints as a whole. They may have their engines connect for
// KV events only where somebody listens, or nobody wants events.
func checkMembers(members []pool.Member, inbound bool) error {
	names := map[string]bool{}
	for _, m := range members {
		if names[m.Name] {
			return fmt.Errorf("two endpoints have the name %q: explanations tell pods apart by their names", m.Name)
		}
		names[m.Name] = true
		if m.Events == pool.EventsListen && !inbound {
			return fmt.Errorf("endpoint %q: events: listen needs an address that engines connect to: set events.listen in the configuration", m.Name)
		}
	}
	return nil
}

// endpointsWatch follows the file of --endpoints.
type endpointsWatch struct {
	path   string
	last   []byte
	failed string
	set    func([]pool.Member) error
	logger *slog.Logger
}

// load reads the file once.
func (w *endpointsWatch) load() error {
	b, err := readEndpoints(w.path)
	if err != nil {
		return fmt.Errorf("--endpoints %s: %w", w.path, err)
	}
	if w.last != nil && bytes.Equal(b, w.last) {
		w.failed = ""
		return nil
	}
	members, err := ParseEndpoints(b)
	if err == nil {
		err = w.set(members)
	}
	if err != nil {
		return fmt.Errorf("--endpoints %s: %w", w.path, err)
	}
	w.last, w.failed = b, ""
	return nil
}

// run looks at the file every second of wall time. A file that can't be read
// changes nothing, and is said once.
func (w *endpointsWatch) run(ctx context.Context) error {
	for (clock.Wall{}).Sleep(ctx, time.Second) == nil {
		if err := w.load(); err != nil && err.Error() != w.failed {
			w.failed = err.Error()
			w.logger.Error("endpoints file not taken over, the last good one stands", slog.String(logkey.Error, w.failed))
		}
	}
	return nil
}
