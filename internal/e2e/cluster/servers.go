package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patience is how long anything is waited for: an API server is ready after two
// seconds on a machine that has nothing else to do.
const patience = time.Minute

// servers are etcd, an API server on it, and a kubelet that it knows.
type servers struct {
	dir     string
	etcd    *server
	api     *server
	etcdURL string
	url     string // of the API server
	client  *http.Client
	kubelet *kubelet

	mu        sync.Mutex
	resources map[string][]metav1.APIResource // by group and version
}

// launch starts the servers, a second time when somebody took a port of the first.
func launch(binaries string, crds []CRD) (*servers, error) {
	s, err := tryLaunch(binaries, crds)
	if err != nil {
		var again error
		if s, again = tryLaunch(binaries, crds); again != nil {
			return nil, errors.Join(err, again)
		}
	}
	return s, nil
}

func tryLaunch(binaries string, crds []CRD) (_ *servers, err error) {
	dir, err := os.MkdirTemp("", "eppctl-cluster-*")
	if err != nil {
		return nil, err
	}
	s := &servers{dir: dir, resources: map[string][]metav1.APIResource{}}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	free, err := ports(3)
	if err != nil {
		return nil, err
	}
	if err := s.writeKeys(); err != nil {
		return nil, err
	}
	s.etcd = s.etcdServer(filepath.Join(binaries, "etcd"), free[0], free[1])
	s.api = s.apiServer(filepath.Join(binaries, "kube-apiserver"), free[2])
	if err := s.etcd.start(); err != nil {
		return nil, err
	}
	if err := s.startAPI(); err != nil {
		return nil, err
	}
	if s.kubelet, err = startKubelet(); err != nil {
		return nil, err
	}
	if err := s.createNode(); err != nil {
		return nil, err
	}
	return s, s.install(crds)
}

// writeKeys writes the users' tokens, and the keys that sign those of service accounts.
func (s *servers) writeKeys() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"sa.key":     pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		"sa.pub":     pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		"tokens.csv": []byte(Admin + ",admin,admin,system:masters\n" + Stranger + ",stranger,stranger\n"),
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (s *servers) etcdServer(path string, client, peer int) *server {
	s.etcdURL = fmt.Sprintf("http://127.0.0.1:%d", client)
	peers := fmt.Sprintf("http://127.0.0.1:%d", peer)
	return &server{path: path, log: filepath.Join(s.dir, "etcd.log"), args: []string{
		"--name=e2e", "--data-dir=" + filepath.Join(s.dir, "etcd"),
		"--listen-client-urls=" + s.etcdURL, "--advertise-client-urls=" + s.etcdURL,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=e2e=" + peers,
		"--log-level=error", "--unsafe-no-fsync",
	}}
}

func (s *servers) apiServer(path string, port int) *server {
	s.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	file := func(name string) string { return filepath.Join(s.dir, name) }
	return &server{path: path, log: file("kube-apiserver.log"), args: []string{
		"--etcd-servers=" + s.etcdURL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port), "--cert-dir=" + file("certs"), "--token-auth-file=" + file("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file("sa.pub"), "--service-account-signing-key-file=" + file("sa.key"),
		"--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
		"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
		"--kubelet-preferred-address-types=InternalIP",
	}}
}

// authority is the file with the certificate of the API server's authority, which it
// writes itself.
func (s *servers) authority() string { return filepath.Join(s.dir, "certs", "apiserver.crt") }

// startAPI starts the API server and waits until it is ready.
func (s *servers) startAPI() error {
	if err := s.api.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-s.api.exited:
			return fmt.Errorf("the API server ended:\n%s\n%s", s.api.tail(), s.etcd.tail())
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready after %s: %w\n%s", patience, err, s.api.tail())
		}
	}
}

func (s *servers) ready(ctx context.Context) error {
	if s.client == nil {
		authority, err := os.ReadFile(s.authority())
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(authority) {
			return errors.New("no certificate yet")
		}
		s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	}
	_, err := s.request(ctx, http.MethodGet, "/readyz", "", nil)
	return err
}

// stop ends the servers in the order that lets each end well, and removes what they
// wrote.
func (s *servers) stop() {
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
	s.api.stop(syscall.SIGTERM)
	s.etcd.stop(syscall.SIGTERM)
	if s.kubelet != nil {
		s.kubelet.stop()
	}
	os.RemoveAll(s.dir)
}
