package envoyconfig

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/eppctl/eppctl/internal/certs"
	"github.com/eppctl/eppctl/internal/proctest"
)

// patience bounds every wait for a real Envoy, which takes tenths of a second.
const patience = 2 * time.Minute

func realEnvoy(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real programs")
	}
	path := os.Getenv("EPPCTL_E2E_ENVOY")
	switch path {
	case "later":
		t.Skip("'.ci/e2e envoy' runs this test")
	case "":
		const reason = "EPPCTL_E2E_ENVOY is not set: run '.ci/e2e envoy', which installs what this test needs"
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	return path
}

func TestEnvoyTakesEveryCombination(t *testing.T) {
	envoy := realEnvoy(t)
	type combination struct {
		name   string
		config *Config
	}
	work := make(chan combination)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for c := range work {
				if err := Check(t.Context(), envoy, c.config.JSON()); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
		})
	}
	all := combinations(t)
	for name, c := range all {
		work <- combination{name, c}
	}
	close(work)
	workers.Wait()
	if len(all) < 200 {
		t.Errorf("only %d combinations", len(all))
	}
}

// 'envoy -c <(eppctl envoy-config)' needs no file and no file name.
func TestEnvoyReadsFromAPipe(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	c := exec.CommandContext(t.Context(), realEnvoy(t), "--mode", "validate", "-c", "/dev/fd/3")
	c.ExtraFiles = []*os.File{read}
	go func() {
		defer write.Close()
		_, _ = write.Write(with().JSON()) // a reader that went away fails the test below
	}()
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Some mistakes are found only by a start: expressions that are too long, for one.
func TestEnvoyStarts(t *testing.T) {
	envoy := realEnvoy(t)
	for name, c := range variants(t) {
		t.Run(name, func(t *testing.T) {
			c.Listen, c.Admin = "127.0.0.1:0", "127.0.0.1:0"
			log := start(t, envoy, c).stop()
			for line := range strings.Lines(log) {
				if strings.Contains(line, "[warning]") && !strings.Contains(line, "[dns]") {
					t.Errorf("it warns: %s", line)
				}
			}
		})
	}
}

// Only a picker that shows the right certificate counts as healthy.
func TestEnvoyChecksTheCertificate(t *testing.T) {
	envoy := realEnvoy(t)
	picker, authority := servePicker(t)
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string // the statistic that leaves 0
	}{
		{"any certificate", func(*Config) {}, "success"},
		{"the right authority", func(c *Config) { c.PickerCA = authority }, "success"},
		{"the right authority and name", func(c *Config) { c.PickerCA, c.PickerName = authority, "localhost" }, "success"},
		{"the right authority, another name", func(c *Config) { c.PickerCA, c.PickerName = authority, "elsewhere" }, "failure"},
		{"another authority", func(c *Config) { c.PickerCA = ca(t) }, "failure"},
		{"no TLS", func(c *Config) { c.Plaintext = true }, "failure"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := start(t, envoy, with(tc.change, func(c *Config) {
				c.Listen, c.Admin, c.Pickers = "127.0.0.1:0", "127.0.0.1:0", []string{picker}
			}))
			stats := e.checked(t)
			if strings.Contains(stats, "health_check."+tc.want+": 0\n") {
				t.Errorf("no health check ended in %s:\n%s", tc.want, stats)
			}
		})
	}
}

// servePicker answers health checks as a picker does, and returns its address and
// its certificate.
func servePicker(t *testing.T) (string, []byte) {
	t.Helper()
	certificate, err := certs.SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(certs.Config(func() *tls.Certificate { return certificate }))))
	states := health.NewServer()
	states.SetServingStatus(grpcService, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, states)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
}

// running is an Envoy that a test started.
type running struct {
	admin string
	log   bytes.Buffer
	cmd   *exec.Cmd
	stop  func() string // ends it and returns what it said
}

func start(t *testing.T, envoy string, c *Config) *running {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config, admin := filepath.Join(dir, "envoy.json"), filepath.Join(dir, "admin")
	if err := os.WriteFile(config, c.JSON(), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &running{cmd: exec.Command(envoy, "-c", config, "--admin-address-path", admin, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning")}
	e.cmd.Stdout, e.cmd.Stderr = &e.log, &e.log
	proctest.EndWithTest(e.cmd, syscall.SIGKILL)
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.stop = sync.OnceValue(func() string {
		_ = e.cmd.Process.Kill() // fails for one that ended by itself, which the log explains
		_ = e.cmd.Wait()
		return e.log.String()
	})
	t.Cleanup(func() {
		if log := e.stop(); t.Failed() {
			t.Logf("Envoy said:\n%s", log)
		}
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(admin); err == nil && len(b) > 0 {
			e.admin = string(b)
			if ready, err := e.get("/ready"); err == nil && strings.HasPrefix(ready, "LIVE") {
				return e
			}
		}
		if time.Now().After(deadline) || e.cmd.Process.Signal(syscall.Signal(0)) != nil {
			t.Fatal("Envoy is not ready")
		}
	}
}

func (e *running) get(path string) (string, error) {
	r, err := http.Get("http://" + e.admin + path)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

// checked waits until a health check of the picker has ended, and returns the
// statistics of health checks.
func (e *running) checked(t *testing.T) string {
	t.Helper()
	const success, failure = "health_check.success: 0\n", "health_check.failure: 0\n"
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		stats, err := e.get("/stats?filter=^cluster.picker.health_check")
		if err == nil && !(strings.Contains(stats, success) && strings.Contains(stats, failure)) {
			return stats
		}
		if time.Now().After(deadline) {
			t.Fatalf("no health check ended: %v\n%s", err, stats)
		}
	}
}

func TestCheck(t *testing.T) {
	script := func(body string) string {
		path := filepath.Join(t.TempDir(), "envoy")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		name, envoy string
		want        string // in the error; "" = none
	}{
		{"taken", script(`test "$1 $2 $3" = "--mode validate -c" && grep -q '^{"a":1}$' "$4"`), ""},
		{"refused", script(`echo "error initializing configuration '$4': no such field" >&2; exit 1`), "refuses the configuration: exit status 1\nno such field"},
		{"refused at length", script(`head -c 100000 /dev/zero | tr '\0' x; exit 1`), "xxx …"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := Check(t.Context(), tc.envoy, []byte("{\"a\":1}\n"))
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), os.TempDir()+"/eppctl-")):
				t.Errorf("got %v, want an error with %q and no temporary name", err, tc.want)
			case errors.Is(err, ErrNoEnvoy):
				t.Errorf("%v: there is one", err)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		if err := Check(t.Context(), filepath.Join(t.TempDir(), "envoy"), nil); !errors.Is(err, ErrNoEnvoy) {
			t.Errorf("got %v, want ErrNoEnvoy", err)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := fmt.Errorf("enough")
		cancel(cause)
		if err := Check(ctx, script("exec sleep 60"), nil); !errors.Is(err, cause) {
			t.Errorf("got %v, want %v", err, cause)
		}
	})
}
