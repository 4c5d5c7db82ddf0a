package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/pool"
)

// meet looks for the other replicas and listens to each, until ctx ends.
func (x *Exchange) meet(ctx context.Context) error {
	var listening sync.WaitGroup
	defer listening.Wait()
	following, found, problem := map[string]context.CancelFunc{}, map[string][]string{}, ""
	for {
		now, err := x.lookup(ctx, found)
		if text := fmt.Sprint(err); err != nil && text != problem && ctx.Err() == nil {
			problem = text
			x.cfg.Logger.Warn("other replicas are not found", slog.String(logkey.Error, text))
		}
		for address, cancel := range following {
			if !slices.Contains(now, address) {
				cancel()
				delete(following, address)
			}
		}
		for _, address := range now {
			if following[address] == nil {
				one, cancel := context.WithCancel(ctx)
				following[address] = cancel
				listening.Go(func() { x.follow(one, address) })
			}
		}
		if err := (clock.Wall{}).Sleep(ctx, x.cfg.lookupEvery); err != nil {
			for _, cancel := range following {
				cancel()
			}
			return err
		}
	}
}

// lookup finds the addresses of all replicas, this one's among them. Where a name
// can't be looked up, what was found last stands.
func (x *Exchange) lookup(ctx context.Context, found map[string][]string) (all []string, err error) {
	for _, address := range x.cfg.Addresses {
		host, port, _ := net.SplitHostPort(address) // checked by New
		ips, problem := net.DefaultResolver.LookupHost(ctx, host)
		if problem != nil {
			err = errors.Join(err, problem)
		} else {
			found[host] = ips
		}
		for _, ip := range found[host] {
			all = append(all, net.JoinHostPort(ip, port))
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if most := pool.MaxPeers; len(all) > most {
		err = errors.Join(err, fmt.Errorf("%d addresses, the first %d are asked", len(all), most))
		all = all[:most]
	}
	return all, err
}

// errKnown: it is this replica itself, or one that is listened to at another address.
var errKnown = errors.New("known already")

// follow listens to the replica at an address until ctx ends.
func (x *Exchange) follow(ctx context.Context, address string) {
	peer := x.cfg.Pool.AddPeer()
	for ; peer == nil; peer = x.cfg.Pool.AddPeer() { // those that are leaving have the places yet
		if (clock.Wall{}).Sleep(ctx, firstPause) != nil {
			return
		}
	}
	defer peer.Leave()
	x.want(1)
	defer x.want(-1)
	l := &listener{Exchange: x, peer: peer, address: address}
	defer l.know(false)
	pause := firstPause
	for ctx.Err() == nil {
		begun := clock.Wall{}.Now()
		err := l.listen(ctx)
		if errors.Is(err, errKnown) {
			l.know(true)
			_ = clock.Wall{}.Sleep(ctx, x.cfg.lookupEvery)
			continue
		}
		if (clock.Wall{}).Now().Sub(begun) >= x.cfg.silence {
			pause = firstPause
		}
		l.complain(ctx, err)
		if (clock.Wall{}).Now().Sub(l.last) >= x.cfg.silence {
			peer.Forget()
		}
		_ = clock.Wall{}.Sleep(ctx, pause)
		pause = min(2*pause, x.cfg.heartbeat)
	}
}

// firstPause is the time until a stream that has ended is asked for again; it doubles
// up to that of a heartbeat.
const firstPause = 20 * time.Millisecond

func (x *Exchange) want(n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wanted += n
}

// listener is one replica that is listened to.
type listener struct {
	*Exchange
	peer    *pool.Peer
	address string
	replica string    // its name
	process string    // the instance that told last
	last    time.Time // when it said something
	problem string    // that was last logged
	known   bool      // it is none that is wanted: see errKnown
}

// know notes whether the address is another's, or this replica's own.
func (l *listener) know(known bool) {
	if l.known != known {
		l.known = known
		l.want(map[bool]int{true: -1, false: 1}[known])
	}
}

// listen takes one stream to its end.
func (l *listener) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(l.cfg.silence, func() { cancel(fmt.Errorf("silent for %s", l.cfg.silence)) })
	defer silent.Stop()
	resp, err := l.ask(ctx)
	if err != nil {
		return causeOf(ctx, err)
	}
	defer resp.Body.Close()
	instance := resp.Header.Get(instanceHeader)
	if instance != l.process {
		l.process = instance
		l.peer.Forget() // that one's requests ended with it
	}
	if !l.claim(instance) {
		return errKnown
	}
	defer l.disclaim(instance)
	l.know(false)
	l.replica = resp.Header.Get(replicaHeader)
	l.connected.Add(1)
	defer l.connected.Add(-1)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxLine)
	var bookings []pool.Booking
	for lines.Scan() {
		silent.Reset(l.cfg.silence)
		if bookings, err = decode(bookings[:0], lines.Bytes()); err != nil {
			l.malformed.Add(1)
			return err
		}
		if l.last.IsZero() || l.problem != "" {
			l.problem = ""
			l.cfg.Logger.Info("another replica tells of its requests", slog.String(logkey.Replica, l.replica), slog.String(logkey.Address, l.address))
		}
		l.last = clock.Wall{}.Now()
		l.messages.Add(1)
		l.unknown.Add(uint64(l.peer.Told(bookings)))
	}
	if err := lines.Err(); err != nil {
		return causeOf(ctx, err)
	}
	return io.ErrUnexpectedEOF
}

// causeOf is why a stream ended: what ended its context, if that did it.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// ask asks for the stream.
func (l *listener) ask(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+l.cfg.Token)
	resp, err := l.client.Do(req)
	if errors.Is(err, http.ErrSchemeMismatch) {
		return nil, errors.New("it speaks no TLS: give all replicas --report-tls, or none")
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK && resp.Header.Get(instanceHeader) != "" {
		return resp, nil
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return nil, errors.New("it does not know the token: give all replicas the same --report-token-file")
	case http.StatusOK:
		return nil, errors.New("something else answers there")
	case http.StatusBadRequest: // what Go's server says to who speaks no TLS
		if l.cfg.TLS == nil {
			return nil, errors.New("it answered " + resp.Status + ", perhaps since it speaks TLS: give all replicas --report-tls, or none")
		}
	}
	return nil, errors.New("it answered " + resp.Status)
}

// Path is where the stream is.
const Path = "/v1/peers"

func (l *listener) url() string {
	scheme := "http"
	if l.cfg.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + l.address + Path
}

// claim makes the listener the one that listens to an instance.
func (l *listener) claim(instance string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, taken := l.heard[instance]; taken || instance == l.instance {
		return false
	}
	l.heard[instance] = l.address
	return true
}

func (l *listener) disclaim(instance string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.heard, instance)
}

// complain logs a problem that is not the last one again.
func (l *listener) complain(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	text := strings.TrimPrefix(err.Error(), `Get "`+l.url()+`": `)
	if text != l.problem {
		l.problem = text
		l.cfg.Logger.Warn("another replica is not heard", slog.String(logkey.Replica, l.replica), slog.String(logkey.Address, l.address), slog.String(logkey.Error, text))
	}
}
