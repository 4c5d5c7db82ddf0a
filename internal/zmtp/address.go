package zmtp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// dialTime is how long it may take to connect.
const dialTime = 5 * time.Second

// keepAlive finds out within half a minute that a peer is gone without a word.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

func dialTCP(ctx context.Context, hostPort string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime, KeepAliveConfig: keepAlive}
	return d.DialContext(ctx, "tcp", hostPort)
}

// Listen listens at an address as ZeroMQ writes it: tcp://host:port, where the
// host * means all interfaces and the port 0 a free one. The tcp:// may be missing.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	hostPort, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	l := net.ListenConfig{KeepAliveConfig: keepAlive}
	return l.Listen(ctx, "tcp", hostPort)
}

// CheckAddress tells what is wrong with an address to connect to.
func CheckAddress(address string) error {
	_, err := dialAddress(address)
	return err
}

func dialAddress(address string) (string, error) {
	hostPort, err := parseAddress(address)
	if err != nil {
		return "", err
	}
	if host, port, _ := net.SplitHostPort(hostPort); host == "" || port == "0" {
		return "", fmt.Errorf("zmtp address %q: to connect to it, it needs a host and a port", address)
	}
	return hostPort, nil
}

// parseAddress is the host:port of an address.
func parseAddress(address string) (string, error) {
	hostPort := strings.TrimPrefix(address, "tcp://")
	if strings.Contains(hostPort, "://") {
		return "", fmt.Errorf("zmtp address %q: only tcp:// is spoken", address)
	}
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		if e, is := errors.AsType[*net.AddrError](err); is { // its text has the address once more, as it is
			err = errors.New(e.Err)
		}
		return "", fmt.Errorf("zmtp address %q: %w; want tcp://host:port", address, err)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("zmtp address %q: the port must be a number up to 65535", address)
	}
	if host == "*" {
		host = ""
	}
	return net.JoinHostPort(host, port), nil
}
