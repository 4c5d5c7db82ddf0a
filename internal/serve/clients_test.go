package serve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestClientsAreGone(t *testing.T) {
	const limit = 30 * time.Second
	for _, tt := range []struct {
		name             string
		extproc, gateway time.Duration // until the last connection closes
		busy             time.Duration // requests come to the gateway until then, each second
		from, to         time.Duration // the wait takes
	}{
		{"nobody is there", 0, 0, 0, 0, 0},
		{"Envoy stays", time.Hour, 0, 0, limit, limit},
		{"Envoy goes", 5 * time.Second, 0, 0, 5 * time.Second, 6 * time.Second},
		{"an idle connection to the gateway", 0, time.Hour, 0, quiet, quiet + time.Second},
		{"one that closes", 0, time.Second, 0, time.Second, quiet},
		{"requests that still come", 0, time.Hour, 10 * time.Second, 9*time.Second + quiet, 11*time.Second + quiet},
		{"requests that never cease", 0, time.Hour, time.Hour, limit, limit},
		{"both, and Envoy goes last", 8 * time.Second, time.Hour, 4 * time.Second, 8 * time.Second, 9 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				until := func(d time.Duration) func() int {
					return func() int {
						if time.Since(begin) < d {
							return 1
						}
						return 0
					}
				}
				c := clients{
					quiet: quiet, extproc: until(tt.extproc), gateway: until(tt.gateway),
					requests: func() uint64 { return uint64(min(time.Since(begin), tt.busy) / time.Second) },
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				c.gone(ctx)
				if took := time.Since(begin); took < tt.from || took > tt.to {
					t.Errorf("waited for %v, want %v to %v", took, tt.from, tt.to)
				}
			})
		})
	}
}
