package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/zmtp"
)

// PortInUseError says which addresses somebody else listens on: all of them, so
// that one correction is enough.
type PortInUseError struct{ Ports []BusyPort }

// BusyPort is an address that somebody else listens on.
type BusyPort struct {
	Name, Address string
	Flag          string // that sets it; "" for one of the configuration alone, whose key is the name
	Free          string // an address on the same host that was free a moment ago; "" when none was found
}

// setting is where the address was set.
func (p *BusyPort) setting() string {
	if p.Flag == "" {
		return p.Name
	}
	return "--" + p.Flag
}

func (e *PortInUseError) Error() string {
	parts := make([]string, len(e.Ports))
	for i := range e.Ports {
		parts[i] = fmt.Sprintf("%s (%s)", e.Ports[i].Address, e.Ports[i].setting())
	}
	if len(parts) == 1 {
		return "address already in use: " + parts[0]
	}
	return "addresses already in use: " + strings.Join(parts, ", ")
}

// listeners are the open sockets of the server.
type listeners struct {
	gateway, extproc, health, metrics, admin, report, events *counted
}

// open listens on a TCP address. It does not wait for anything.
func open(address string) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(context.Background(), "tcp", address)
}

// openEvents listens where engines connect to.
func openEvents(address string) (net.Listener, error) {
	return zmtp.Listen(context.Background(), address)
}

// listen opens all sockets, or none.
func listen(c *config.Config) (*listeners, error) {
	l, a := &listeners{}, &c.Addresses
	events := ""
	if c.Events.Enabled {
		events = c.Events.Listen
	}
	var busy []BusyPort
	for _, want := range []struct {
		name, flag, address string
		to                  **counted
		open                func(string) (net.Listener, error)
	}{
		{"gateway", "gateway-addr", a.Gateway, &l.gateway, open},
		{"ext_proc", "extproc-addr", a.Extproc, &l.extproc, open},
		{"health", "health-addr", a.Health, &l.health, open},
		{"metrics", "metrics-addr", a.Metrics, &l.metrics, open},
		{"admin", "admin-addr", a.Admin, &l.admin, open},
		{"reports", "report-addr", a.Report, &l.report, open},
		{"events.listen", "", events, &l.events, openEvents},
	} {
		if want.address == "" {
			continue
		}
		port := BusyPort{Name: want.name, Flag: want.flag, Address: want.address}
		ln, err := want.open(want.address)
		switch {
		case err == nil:
			*want.to = count(ln)
		case errors.Is(err, syscall.EADDRINUSE):
			busy = append(busy, port)
		default:
			l.close()
			return nil, fmt.Errorf("%s: %w", port.setting(), err)
		}
	}
	if len(busy) > 0 {
		findFree(busy)
		l.close()
		return nil, &PortInUseError{busy}
	}
	return l, nil
}

// findFree finds a free port on the host of each address, no port twice.
func findFree(busy []BusyPort) {
	for i := range busy {
		host, _, err := net.SplitHostPort(busy[i].Address)
		if err != nil {
			continue
		}
		if host == "*" {
			host = ""
		}
		ln, err := open(net.JoinHostPort(host, "0"))
		if err != nil {
			continue
		}
		defer ln.Close() // open until all are found, so that they differ
		busy[i].Free = ln.Addr().String()
	}
}

func (l *listeners) close() {
	for _, ln := range []*counted{l.gateway, l.extproc, l.health, l.metrics, l.admin, l.report, l.events} {
		if ln != nil {
			_ = ln.Close() // it was never served from
		}
	}
}

func (l *listeners) addresses() Addresses {
	return Addresses{
		Gateway: address(l.gateway), Extproc: address(l.extproc), Health: address(l.health),
		Metrics: address(l.metrics), Admin: address(l.admin), Report: address(l.report), Events: address(l.events),
	}
}

func address(ln *counted) string {
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
