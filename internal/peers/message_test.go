package peers

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/internal/pool"
)

func TestWhatIsNotTaken(t *testing.T) {
	many := `{"bookings":[` + strings.Repeat(`{"pod":"pod-00","endpoint":"127.0.0.1:8000","picked":1,"open":1},`, maxBookings)
	tests := []struct {
		name   string
		answer func(w http.ResponseWriter)
		log    string
		peers  int
	}{
		{"garbage", lines("x"), "invalid character", 0},
		{"an unknown field", lines(`{"bookings":[{"pod":"pod-00","endpoint":"127.0.0.1:8000","picked":1,"open":1,"x":1}]}`), "unknown field", 0},
		{"more open than picked", lines(`{"bookings":[{"pod":"pod-00","endpoint":"127.0.0.1:8000","picked":1,"open":2}]}`), "2 open of 1 picked", 0},
		{"a line that is too long", lines(strings.Repeat(" ", maxLine+1)), "too long", 0},
		{"too many bookings", lines(strings.TrimSuffix(many, ",") + `,{}]}`), "at most 2048", 0},
		{"good, then bad", lines(`{"bookings":[{"pod":"pod-00","endpoint":"127.0.0.1:8000","picked":1,"open":1}]}`, "{} {}"), "more than one JSON object", 1},
		{"nothing at all", func(http.ResponseWriter) { time.Sleep(time.Hour) }, "silent for 3s", 0},
		{"no picker", func(w http.ResponseWriter) { w.Header().Del(instanceHeader) }, "something else answers there", 0},
		{"another status", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, "it answered 404", 0},
		{"a token that it does not know", func(w http.ResponseWriter) { w.WriteHeader(http.StatusUnauthorized) }, "--report-token-file", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWires()
				var asked atomic.Int64
				other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					asked.Add(1)
					w.Header().Set(instanceHeader, "another")
					tt.answer(w)
				})}
				listener := w.listen("10.0.0.9:9092")
				go func() { _ = other.Serve(listener) }()
				var log bytes.Buffer
				r := newReplica(t, 4, 1)
				r.join(t, w, "10.0.0.1:9092", func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, "10.0.0.9:9092")
				time.Sleep(2500 * time.Millisecond)
				expect(t, "meanwhile", r, 0, tt.peers)
				time.Sleep(time.Minute)
				if n := asked.Load(); n > 80 {
					t.Errorf("asked %d times in a minute", n)
				}
				_ = other.Close()
				time.Sleep(time.Hour)
				r.leave()
				expect(t, "at the end", r, 0, 0)
				if text := log.String(); !strings.Contains(text, tt.log) || strings.Contains(text, token) {
					t.Errorf("the log: %s", text)
				}
			})
		})
	}
}

func lines(all ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for _, line := range all {
			fmt.Fprintln(w, line)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"bookings":[{"pod":"a","endpoint":"b","picked":2,"open":1}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		bookings, err := decode(nil, line)
		if err != nil {
			return
		}
		text, err := encode(nil, bookings)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(nil, bytes.TrimSuffix(text, []byte("\n")))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(bookings) {
			t.Errorf("%v became %v, %v", bookings, again, err)
		}
	})
}

// BenchmarkMessage is what telling and being told of a few endpoints costs.
func BenchmarkMessage(b *testing.B) {
	for _, n := range []int{1, 16, 100} {
		b.Run(fmt.Sprintf("bookings=%d", n), func(b *testing.B) {
			var bookings, read []pool.Booking
			for i := range n {
				bookings = append(bookings, pool.Booking{Pod: "model-server-7d9f8b6c5-" + podName(i), Endpoint: "10.244.13.57:8000", Picked: 123456, Open: 7})
			}
			var line []byte
			b.ReportAllocs()
			for b.Loop() {
				line, _ = encode(line[:0], bookings)
				read, _ = decode(read[:0], line)
			}
		})
	}
}
