package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/eppctl/eppctl/internal/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// made is a certificate and its key in PEM form.
func made(t *testing.T, name string, notAfter time.Time) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: notAfter}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// shaken is what a client sees of a server with the configuration.
func shaken(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer b.Close()
		_ = tls.Server(b, server).Handshake() // the client tells
	}()
	c := tls.Client(a, client)
	err := c.Handshake()
	a.Close()
	<-done
	return c.ConnectionState(), err
}

func TestSelfSigned(t *testing.T) {
	c, err := SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	config := Config(func() *tls.Certificate { return c })
	roots := x509.NewCertPool()
	roots.AddCert(c.Leaf)
	for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
		state, err := shaken(t, config, &tls.Config{RootCAs: roots, ServerName: name, NextProtos: []string{"h2"}})
		if err != nil {
			t.Errorf("as %s: %v", name, err)
		}
		if state.NegotiatedProtocol != "h2" {
			t.Errorf("ALPN gives %q, want h2", state.NegotiatedProtocol)
		}
	}
	if left := time.Until(c.Leaf.NotAfter); left < 9*365*24*time.Hour {
		t.Errorf("it lasts for %v", left)
	}
	another, err := SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(c.Certificate[0], another.Certificate[0]) {
		t.Error("two processes would have the same certificate")
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	c, err := SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		client := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version}
		if _, err := shaken(t, Config(func() *tls.Certificate { return c }), client); (err == nil) != ok {
			t.Errorf("%s: error %v", tls.VersionName(version), err)
		}
	}
}

// A replica knows another by the key that both have, whatever the certificate says.
func TestPinned(t *testing.T) {
	pair := func(cert, key []byte) *tls.Certificate {
		t.Helper()
		c, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return &c
	}
	cert, key := made(t, "a", time.Now().Add(time.Hour))
	own := pair(cert, key)
	renewed := &x509.Certificate{Subject: pkix.Name{CommonName: "b"}, NotAfter: time.Now().Add(-time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, renewed, renewed, own.Leaf.PublicKey, own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		shown *tls.Certificate
		ok    bool
	}{
		"the same":                     {own, true},
		"of the same key, and expired": {&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: own.PrivateKey}, true},
		"of another key":               {pair(made(t, "a", time.Now().Add(time.Hour))), false},
	} {
		_, err := shaken(t, Config(func() *tls.Certificate { return tt.shown }), withoutALPN(Pinned(func() *tls.Certificate { return own })))
		if (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "give all replicas the same files") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func withoutALPN(c *tls.Config) *tls.Config {
	c.NextProtos = nil
	return c
}

func TestOpenNamesTheFileAndWhatToDo(t *testing.T) {
	later := time.Now().Add(time.Hour)
	cert, key := made(t, "a", later)
	_, other := made(t, "b", later)
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no DER")})
	for _, tt := range []struct {
		name      string
		cert, key []byte // nil = no file
		want      []string
	}{
		{"a pair", cert, key, nil},
		{"no certificate file", nil, key, []string{"cert.pem: no such file"}},
		{"no key file", cert, nil, []string{"key.pem: no such file"}},
		{"an empty certificate file", []byte{}, key, []string{"cert.pem holds no certificate", "write the server's own"}},
		{"exchanged", key, cert, []string{"cert.pem holds no certificate"}},
		{"a certificate that is none", broken, key, []string{"cert.pem holds no certificate that can be read", "anew"}},
		{"half a certificate", cert[:len(cert)/2], key, []string{"cert.pem holds no certificate"}},
		{"half a key", cert, key[:len(key)/2], []string{"key.pem holds no private key", "write the certificate's key"}},
		{"another's key", cert, other, []string{"key.pem is no key for the certificate in", "cert.pem", "the one that it was made with"}},
		{"too large", bytes.Repeat([]byte("x"), maxFile+1), key, []string{"cert.pem: larger than 1048576 bytes"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
			if tt.cert != nil {
				write(t, certFile, tt.cert)
			}
			if tt.key != nil {
				write(t, keyFile, tt.key)
			}
			f, err := Open(certFile, keyFile, slog.New(slog.DiscardHandler))
			if tt.want == nil {
				if err != nil || f.Certificate().Leaf.Subject.CommonName != "a" {
					t.Errorf("error %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in: %v", want, err)
				}
			}
		})
	}
}

// A pair is written one file after the other; what is bad for longer is told once.
func TestFilesAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		dir := t.TempDir()
		certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		later := time.Now().Add(time.Hour)
		oldCert, oldKey := made(t, "old", later)
		newCert, newKey := made(t, "new", later)
		write(t, certFile, oldCert)
		write(t, keyFile, oldKey)
		f, err := Open(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		looks := func(n int) {
			time.Sleep(time.Duration(n) * time.Second)
			synctest.Wait()
		}
		in := func(want string, told int) {
			t.Helper()
			if got := f.Certificate().Leaf.Subject.CommonName; got != want {
				t.Errorf("the certificate in force is %q, want %q", got, want)
			}
			if n := strings.Count(log.String(), "not taken over"); n != told {
				t.Errorf("problems were told %d times, want %d:\n%s", n, told, &log)
			}
		}
		time.Sleep(time.Second / 2) // between two looks
		looks(3)
		in("old", 0)
		write(t, certFile, newCert)
		looks(1)
		in("old", 0)
		write(t, keyFile, newKey)
		looks(1)
		in("new", 0)
		write(t, keyFile, newKey[:40])
		looks(5)
		in("new", 1)
		write(t, keyFile, newKey)
		looks(2)
		in("new", 1)
		if err := os.Remove(certFile); err != nil {
			t.Fatal(err)
		}
		looks(5)
		in("new", 2)
		expired, key := made(t, "expired", time.Now().Add(-time.Hour))
		write(t, certFile, expired)
		write(t, keyFile, key)
		looks(1)
		in("expired", 2)
		if !strings.Contains(log.String(), "has expired") {
			t.Errorf("nothing told of the expired certificate:\n%s", &log)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func FuzzPair(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n"), []byte("-----BEGIN PRIVATE KEY-----\n"))
	files := &Files{cert: "cert.pem", key: "key.pem"}
	f.Fuzz(func(t *testing.T, cert, key []byte) {
		c, err := files.pair(cert, key)
		if err == nil && (c.Leaf == nil || c.PrivateKey == nil) {
			t.Error("a pair without a certificate or a key")
		}
	})
}

func TestAPipeWithoutAWriterIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	certFile := filepath.Join(dir, "cert.pem")
	if err := syscall.Mkfifo(certFile, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(certFile, certFile, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("got %v, want an error that it is empty", err)
	}
}
