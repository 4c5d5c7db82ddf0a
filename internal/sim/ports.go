package sim

import (
	"errors"
	"fmt"
	"net"
)

// addresses are the host:port of what a pod listens at, "" where it does not.
// They stay from one server of the pod to the next.
type addresses struct{ http, events, replay string }

// ports are the listeners of one server, nil where there are none.
type ports struct{ http, events, replay net.Listener }

// listen opens all of them or none.
func listen(at addresses) (*ports, error) {
	p := &ports{}
	for _, want := range []struct {
		address  string
		listener *net.Listener
	}{{at.http, &p.http}, {at.events, &p.events}, {at.replay, &p.replay}} {
		if want.address == "" {
			continue
		}
		l, err := net.Listen("tcp", want.address) //nolint:noctx // binding to loopback does not block
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen: %w", err), p.close())
		}
		*want.listener = l
	}
	return p, nil
}

func (p *ports) addresses() addresses {
	return addresses{addressOf(p.http), addressOf(p.events), addressOf(p.replay)}
}

func addressOf(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

func (p *ports) close() error {
	var errs []error
	for _, l := range []net.Listener{p.http, p.events, p.replay} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}
