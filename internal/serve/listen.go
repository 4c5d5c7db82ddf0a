package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/eppctl/eppctl/internal/config"
)

// PortInUseError is an address that somebody else listens on.
type PortInUseError struct {
	Name, Flag, Address string
	Free                string // an address on the same host that was free a moment ago; "" when none was found
}

func (e *PortInUseError) Error() string {
	return fmt.Sprintf("%s: %s is in use by another program (--%s)", e.Name, e.Address, e.Flag)
}

// listeners are the open sockets of the server.
type listeners struct {
	gateway, health, metrics, admin, report net.Listener
}

// listen opens all sockets, or none.
func listen(a config.Addresses) (*listeners, error) {
	l := &listeners{}
	for _, want := range []struct {
		name, flag, address string
		to                  *net.Listener
	}{
		{"gateway", "gateway-addr", a.Gateway, &l.gateway},
		{"health", "health-addr", a.Health, &l.health},
		{"metrics", "metrics-addr", a.Metrics, &l.metrics},
		{"admin", "admin-addr", a.Admin, &l.admin},
		{"reports", "report-addr", a.Report, &l.report},
	} {
		if want.address == "" {
			continue
		}
		ln, err := net.Listen("tcp", want.address)
		if err != nil {
			l.close()
			if errors.Is(err, syscall.EADDRINUSE) {
				return nil, &PortInUseError{want.name, want.flag, want.address, freeBeside(want.address)}
			}
			return nil, fmt.Errorf("--%s %s: %w", want.flag, want.address, err)
		}
		*want.to = ln
	}
	return l, nil
}

// freeBeside finds a free port on the address's host.
func freeBeside(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return ""
	}
	defer ln.Close()
	return ln.Addr().String()
}

func (l *listeners) close() {
	for _, ln := range []net.Listener{l.gateway, l.health, l.metrics, l.admin, l.report} {
		if ln != nil {
			_ = ln.Close() // it was never served from
		}
	}
}

func (l *listeners) addresses() Addresses {
	return Addresses{
		Gateway: address(l.gateway), Health: address(l.health), Metrics: address(l.metrics),
		Admin: address(l.admin), Report: address(l.report),
	}
}

func address(ln net.Listener) string {
	if ln == nil {
		return ""
	}
	return ln.Addr().String()
}

// writeAddresses puts the addresses into a file as JSON, all at once: a reader
// that waits for the file never sees half of it.
func writeAddresses(path string, a Addresses) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".addresses-*")
	if err != nil {
		return fmt.Errorf("--addr-file: %w", err)
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(append(b, '\n')); err != nil {
		return errors.Join(fmt.Errorf("--addr-file: %w", err), f.Close())
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("--addr-file: %w", err)
	}
	if err := os.Chmod(f.Name(), 0o644); err != nil {
		return fmt.Errorf("--addr-file: %w", err)
	}
	return os.Rename(f.Name(), path)
}
