package peers

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/certs"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
)

// soon is longer than what is picked takes to be told.
const soon = 10 * time.Millisecond

// expect says what a replica believes to be pending of its own and of others.
func expect(t *testing.T, when string, r *replica, own, peers int) {
	t.Helper()
	if o, p := r.pending(podName(0)); o != own || p != peers {
		t.Errorf("%s: %d pending and %d by others, not %d and %d", when, o, p, own, peers)
	}
}

func TestReplicasTellEachOther(t *testing.T) {
	tests := []struct {
		name string
		run  func(t *testing.T, w *wires, a, b *replica)
	}{
		{"from the pick to the answer", func(t *testing.T, _ *wires, a, b *replica) {
			k := a.pick(t)
			expect(t, "at once", b, 0, 0)
			time.Sleep(soon)
			expect(t, "soon", b, 0, 1)
			expect(t, "of the one who picked", a, 1, 0)
			k.Answered(200)
			time.Sleep(soon)
			expect(t, "answered", b, 0, 0)
			finish(k)
		}},
		{"until the engine's figures show it", func(t *testing.T, _ *wires, a, b *replica) {
			defer finish(a.pick(t))
			time.Sleep(soon)
			b.scraped(func(string) int { return 0 })
			expect(t, "a scrape of the same moment", b, 0, 1)
			a.scraped(func(string) int { return 1 })
			time.Sleep(10 * pool.Allowance)
			expect(t, "a scrape of the other one's", b, 0, 1)
			defer finish(a.pick(t))
			time.Sleep(soon)
			expect(t, "another pick", b, 0, 2)
			b.scraped(func(string) int { return 1 })
			expect(t, "a scrape that has seen the first", b, 0, 1)
		}},
		{"what is given up", func(t *testing.T, _ *wires, a, b *replica) {
			k := a.pick(t)
			time.Sleep(soon)
			finish(k)
			time.Sleep(soon)
			expect(t, "soon", b, 0, 0)
		}},
		{"of the time before they met", func(t *testing.T, w *wires, a, b *replica) {
			b.leave()
			k := a.pick(t)
			b.join(t, w, "10.0.0.2:9092", nil, "10.0.0.1:9092")
			time.Sleep(time.Second)
			expect(t, "a second later", b, 0, 1)
			finish(k)
		}},
		{"and are forgotten in silence", func(t *testing.T, w *wires, a, b *replica) {
			defer finish(a.pick(t))
			time.Sleep(soon)
			w.sever(true)
			time.Sleep(silence - heartbeat)
			expect(t, "while it may be a pause", b, 0, 1)
			time.Sleep(2 * silence)
			expect(t, "later", b, 0, 0)
			if s := b.Stats(); s.Wanted != 1 || s.Connected != 0 {
				t.Errorf("%+v", s)
			}
			w.sever(false)
			time.Sleep(2 * silence)
			expect(t, "when they hear of each other again", b, 0, 1)
		}},
		{"and one that another process has taken the place of", func(t *testing.T, w *wires, a, b *replica) {
			defer finish(a.pick(t))
			time.Sleep(soon)
			a.leave()
			next := newReplica(t, 4, 3)
			next.join(t, w, "10.0.0.1:9092", nil, "10.0.0.2:9092")
			time.Sleep(time.Second)
			if s := b.Stats(); s.Connected != 1 {
				t.Errorf("%+v", s)
			}
			expect(t, "though it was away for a moment", b, 0, 0)
			next.leave()
		}},
		{"and one that ends is forgotten", func(t *testing.T, _ *wires, a, b *replica) {
			defer finish(a.pick(t))
			time.Sleep(soon)
			expect(t, "before", b, 0, 1)
			a.leave()
			time.Sleep(2 * silence)
			expect(t, "after", b, 0, 0)
		}},
		{"and one that comes back begins anew", func(t *testing.T, w *wires, a, b *replica) {
			for range 5 {
				finish(a.pick(t))
			}
			a.leave()
			again := newReplica(t, 4, 9)
			again.join(t, w, "10.0.0.1:9092", nil, "10.0.0.2:9092")
			k := again.pick(t)
			time.Sleep(2 * silence)
			expect(t, "soon", b, 0, 1)
			again.leave()
			finish(k)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWires()
				w.latency = 200 * time.Microsecond // so that nothing is known at once
				all := replicas(t, w, 2, 4, nil)
				time.Sleep(time.Second)
				tt.run(t, w, all[0], all[1])
				for _, r := range all {
					r.leave()
				}
			})
		})
	}
}

func TestTheSameReplicaCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWires()
		a, b := newReplica(t, 4, 1), newReplica(t, 4, 2)
		both := []string{"10.0.0.1:9092", "10.0.1.1:9092", "10.0.0.2:9092"}
		a.join(t, w, both[0], nil, both...)
		w.at[both[1]] = w.at[both[0]] // a has two addresses
		b.join(t, w, both[2], nil, both...)
		k := a.pick(t)
		time.Sleep(time.Minute)
		expect(t, "of b", b, 0, 1)
		expect(t, "of a", a, 1, 0)
		for _, r := range []*replica{a, b} {
			if s := r.Stats(); s.Wanted != 1 || s.Connected != 1 || s.Readers != 1 {
				t.Errorf("%+v", s)
			}
		}
		a.leave()
		b.leave()
		finish(k)
	})
}

func TestEndpointsThatAreNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWires()
		a, b := newReplica(t, 4, 1), newReplica(t, 2, 2)
		a.join(t, w, "10.0.0.1:9092", nil, "10.0.0.2:9092")
		b.join(t, w, "10.0.0.2:9092", nil, "10.0.0.1:9092")
		var all []*picker.Pick
		for range 40 {
			all = append(all, a.pick(t))
		}
		time.Sleep(time.Second)
		if s := b.Stats(); s.Unknown == 0 {
			t.Errorf("%+v", s)
		}
		expect(t, "of the pod that both have", b, 0, 20)
		for _, k := range all {
			finish(k)
		}
		a.leave()
		b.leave()
	})
}

// With TLS replicas know each other by their certificate, and show nobody else the token.
func TestReplicasSpeakTLS(t *testing.T) {
	own, err := certs.SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	another, err := certs.SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		shown *tls.Certificate // by the other one; nil = it speaks no TLS
		plain bool             // this one speaks none
		peers int
		log   string
	}{
		"both":                {own, false, 1, "another replica tells of its requests"},
		"another certificate": {another, false, 0, "give all replicas the same files"},
		"this one alone":      {nil, false, 0, "it speaks no TLS: give all replicas --report-tls, or none"},
		"the other one alone": {own, true, 0, "perhaps since it speaks TLS: give all replicas --report-tls, or none"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWires()
				var log bytes.Buffer
				a, b := newReplica(t, 4, 1), newReplica(t, 4, 2)
				a.tls = tt.shown
				a.join(t, w, "10.0.0.1:9092", nil)
				b.join(t, w, "10.0.0.2:9092", func(c *Config) {
					c.Logger = slog.New(slog.NewTextHandler(&log, nil))
					if !tt.plain {
						c.TLS = certs.Pinned(func() *tls.Certificate { return own })
					}
				}, "10.0.0.1:9092")
				k := a.pick(t)
				time.Sleep(time.Second)
				expect(t, "soon", b, 0, tt.peers)
				finish(k)
				a.leave()
				b.leave()
				if text := log.String(); !strings.Contains(text, tt.log) || strings.Contains(text, token) {
					t.Errorf("the log: %s", text)
				}
			})
		})
	}
}

func TestOnlySoManyReplicas(t *testing.T) {
	x, err := New(Config{Pool: newReplica(t, 1, 1).pool, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	for range pool.MaxPeers {
		if x.subscribe() == nil {
			t.Fatal("no place")
		}
	}
	if x.subscribe() != nil {
		t.Error("a place too many")
	}
}

// Replicas that come while those that leave still have all places are heard later.
func TestAReplicaWaitsForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWires()
		a, b := newReplica(t, 4, 1), newReplica(t, 4, 2)
		var leaving []*pool.Peer
		for range pool.MaxPeers {
			leaving = append(leaving, b.pool.AddPeer())
		}
		a.join(t, w, "10.0.0.1:9092", nil, "10.0.0.2:9092")
		b.join(t, w, "10.0.0.2:9092", nil, "10.0.0.1:9092")
		k := a.pick(t)
		time.Sleep(time.Second)
		expect(t, "without a place", b, 0, 0)
		leaving[0].Leave()
		time.Sleep(time.Second)
		expect(t, "with one", b, 0, 1)
		finish(k)
		a.leave()
		b.leave()
	})
}

func TestAddresses(t *testing.T) {
	p := newReplica(t, 1, 1).pool
	for address, ok := range map[string]bool{
		"epp-peers:9092": true, "[::1]:1": true, "10.0.0.1:65535": true,
		"epp-peers": false, ":9092": false, "epp-peers:": false, "epp-peers:0": false, "epp-peers:65536": false, "epp-peers:http": false,
		"http://epp-peers:9092": false, "user@epp-peers:9092": false, "epp peers:9092": false,
	} {
		if _, err := New(Config{Pool: p, Token: token, Addresses: []string{address}}); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Whatever happens, in the end all know the same.
func TestInTheEndAllKnowTheSame(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			w := newWires()
			all := replicas(t, w, 3, 4, nil)
			random := rand.New(rand.NewPCG(seed, 3))
			open := make([][]*picker.Pick, len(all))
			for range 300 {
				i := random.IntN(len(all))
				switch random.IntN(12) {
				case 0:
					w.sever(random.IntN(3) == 0)
				case 1:
					time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
				case 2, 3, 4:
					if n := len(open[i]); n > 0 {
						finish(open[i][0])
						open[i] = open[i][1:]
					}
				default:
					if len(open[i]) < 12 {
						open[i] = append(open[i], all[i].pick(t))
					}
				}
				time.Sleep(time.Duration(random.Int64N(int64(3 * time.Millisecond))))
			}
			w.sever(false)
			time.Sleep(time.Minute) // nobody was scraped: all that is open is pending
			for i, r := range all {
				for _, v := range r.pool.Views() {
					others := 0
					for k := range all {
						for _, pick := range open[k] {
							if k != i && pick.Pod() == v.State.Pod {
								others++
							}
						}
					}
					if v.State.PeerPending != others {
						t.Errorf("seed %d: replica %d believes that others have %d pending at %s: %d", seed, i, v.State.PeerPending, v.State.Pod, others)
					}
				}
			}
			for i, r := range all {
				r.leave()
				for _, k := range open[i] {
					finish(k)
				}
			}
		})
	}
}
