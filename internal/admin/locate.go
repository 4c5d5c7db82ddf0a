package admin

import (
	"context"
	"fmt"
	"time"
)

// EnvServer is the environment variable that names the picker.
const EnvServer = "EPPCTL_SERVER"

// DefaultServer is where a picker's admin API listens unless told otherwise.
const DefaultServer = "127.0.0.1:9091"

// locateTimeout is how long the default may take to answer.
const locateTimeout = 300 * time.Millisecond

// Location is a picker and how it was found.
type Location struct {
	Server string // URL or host:port
	Source string // "--server", "EPPCTL_SERVER" or "default"
}

// String is what a command prints to standard error.
func (l Location) String() string { return fmt.Sprintf("picker %s (%s)", l.Server, l.Source) }

// Locate finds the picker to talk to: the flag's, else EPPCTL_SERVER's, else the
// default one if it answers within 300 ms. If it does not, the error is an
// [*UnreachableError], and the caller may look elsewhere.
func Locate(ctx context.Context, flag string, getenv func(string) string) (Location, error) {
	return locator{DefaultServer, locateTimeout}.locate(ctx, flag, getenv)
}

type locator struct {
	server  string
	timeout time.Duration
}

func (l locator) locate(ctx context.Context, flag string, getenv func(string) string) (Location, error) {
	if flag != "" {
		return Location{flag, "--server"}, nil
	}
	if server := getenv(EnvServer); server != "" {
		return Location{server, EnvServer}, nil
	}
	client, err := NewClient(l.server, ClientOptions{})
	if err != nil {
		return Location{}, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if _, err := client.Version(ctx); err != nil {
		return Location{}, err
	}
	return Location{l.server, "default"}, nil
}
