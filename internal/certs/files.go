package certs

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/logkey"
)

// maxFile bounds a file with a certificate or a key.
const maxFile = 1 << 20

// Files is a certificate with its key in two PEM files, which it follows.
type Files struct {
	cert, key string // paths
	logger    *slog.Logger
	current   atomic.Pointer[tls.Certificate]

	sums         [2][sha256.Size]byte // of the contents in force: the key itself is not kept
	failed, said string               // what was wrong at the last look, and what was told of it
}

// Open reads the pair for the first time. Its errors name the file and what to do.
func Open(cert, key string, logger *slog.Logger) (*Files, error) {
	f := &Files{cert: cert, key: key, logger: logger}
	if err := f.look(); err != nil {
		return nil, err
	}
	return f, nil
}

// Certificate is the last good pair.
func (f *Files) Certificate() *tls.Certificate { return f.current.Load() }

// Run looks at the files every second of wall time until ctx ends.
func (f *Files) Run(ctx context.Context) error {
	for (clock.Wall{}).Sleep(ctx, time.Second) == nil {
		f.report(f.look())
	}
	return nil
}

// report tells what is wrong once, and only when it still is at the second look:
// between the writing of one file and the other no pair is whole.
func (f *Files) report(err error) {
	switch {
	case err == nil:
		f.failed, f.said = "", ""
	case err.Error() != f.failed:
		f.failed = err.Error()
	case f.failed != f.said:
		f.said = f.failed
		f.logger.Error("TLS certificate not taken over, the last good one stands", slog.String(logkey.Error, f.said))
	}
}

// look takes over what the files hold, if that is new and a good pair.
func (f *Files) look() error {
	cert, err := read(f.cert)
	if err != nil {
		return err
	}
	key, err := read(f.key)
	if err != nil {
		return err
	}
	sums := [2][sha256.Size]byte{sha256.Sum256(cert), sha256.Sum256(key)}
	old := f.current.Load()
	if old != nil && sums == f.sums {
		return nil
	}
	c, err := f.pair(cert, key)
	if err != nil {
		return err
	}
	f.current.Store(c)
	f.sums = sums
	if old != nil {
		f.logger.Info("TLS certificate taken over", slog.Time(logkey.NotAfter, c.Leaf.NotAfter))
	}
	if c.Leaf.NotAfter.Before(clock.Wall{}.Now()) {
		f.logger.Warn("the TLS certificate has expired", slog.String(logkey.File, f.cert), slog.Time(logkey.NotAfter, c.Leaf.NotAfter))
	}
	return nil
}

// pair makes a certificate of the files' contents, or says which of them is wrong.
func (f *Files) pair(cert, key []byte) (*tls.Certificate, error) {
	chain, keys := blocks(cert, "CERTIFICATE"), blocks(key, "PRIVATE KEY")
	if len(chain) == 0 {
		return nil, fmt.Errorf("%s holds no certificate in PEM form: write the server's own into it, then those that vouch for it", f.cert)
	}
	leaf, err := x509.ParseCertificate(chain[0].Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s holds no certificate that can be read (%w): write it anew", f.cert, err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s holds no private key in PEM form: write the certificate's key into it", f.key)
	}
	c, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s is no key for the certificate in %s (%s): give the one that it was made with, not encrypted",
			f.key, f.cert, strings.TrimPrefix(err.Error(), "tls: "))
	}
	c.Leaf = leaf
	return &c, nil
}

// blocks are the PEM blocks whose type ends like that.
func blocks(b []byte, kind string) (found []*pem.Block) {
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			return found
		}
		if strings.HasSuffix(block.Type, kind) {
			found = append(found, block)
		}
	}
}

func read(path string) ([]byte, error) {
	// A pipe into which nobody writes would be waited for, at the end too.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxFile)
	}
	return b, nil
}
