// Package certs is the TLS certificate of the picker's listeners: read from a pair of
// files and followed as they change, or made at the start.
//
// The one idea: a listener always has a good certificate. The pair in force is
// replaced by the next good one and by nothing else, so files that are missing or
// half-written for a moment change nothing.
//
// It asks no authority for certificates and checks none of clients. What replicas show
// each other is compared with their own.
package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
)

// lifetime of a certificate that is made at the start: it lives no longer than
// the process does.
const lifetime = 10 * 365 * 24 * time.Hour

// SelfSigned makes a certificate with a key that never leaves memory, for this
// host's name and the loopback addresses. Clients can't verify it: it encrypts
// and proves nothing.
func SelfSigned() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a TLS key: %w", err)
	}
	names := []string{"localhost"}
	if host, err := os.Hostname(); err == nil && host != "" && !slices.Contains(names, host) {
		names = append(names, host)
	}
	now := clock.Wall{}.Now()
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "eppctl, self-signed"},
		DNSNames:    names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotBefore:   now.Add(-time.Hour), // clocks differ
		NotAfter:    now.Add(lifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},

		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a TLS certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make a TLS certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// Config is how a gRPC server speaks TLS with the certificate that current
// returns for each handshake.
func Config(current func() *tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current(), nil },
	}
}

// Pinned is how a client speaks TLS with servers that have the same key as the
// certificate that current returns: other replicas, which get it from the same place.
// Names, dates and authorities don't matter then.
func Pinned(current func() *tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"},
		InsecureSkipVerify: true, // VerifyConnection verifies
		VerifyConnection: func(c tls.ConnectionState) error {
			if len(c.PeerCertificates) == 0 || !bytes.Equal(c.PeerCertificates[0].RawSubjectPublicKeyInfo, current().Leaf.RawSubjectPublicKeyInfo) {
				return errors.New("its certificate is not of the key in --tls-key: give all replicas the same files")
			}
			return nil
		},
	}
}
