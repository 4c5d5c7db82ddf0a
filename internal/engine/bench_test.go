package engine

import (
	"bytes"
	"fmt"
	"net/http"
	"syscall"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// BenchmarkReadPage reads pages of one server: one that differs in a value from
// the one before, one that does not, and, for comparison, each with
// prometheus/common's parser.
func BenchmarkReadPage(b *testing.B) {
	for _, name := range []string{"vllm-idle.txt", "vllm-busy.txt", "vllm-dp2-busy.txt", "llmd-simulator.txt"} {
		page := []byte(fixture(b, name))
		other := bytes.Replace(page, []byte("\nvllm:num_requests_running{"), []byte("\nvllm:num_requests_running{x=\"\","), 1)
		if bytes.Equal(page, other) {
			b.Fatal("the two pages do not differ")
		}
		read := func(pages ...[]byte) func(*testing.B) {
			return func(b *testing.B) {
				var r Reader
				var body bytes.Reader
				turn := 0
				measure(b, func() error {
					body.Reset(pages[turn%len(pages)])
					turn++
					_, err := r.Read(&body, textPlain)
					return err
				})
			}
		}
		b.Run("page="+name, read(page, other))
		b.Run("page="+name+"/unchanged", read(page))
		b.Run("page="+name+"/expfmt", func(b *testing.B) {
			measure(b, func() error {
				parser := expfmt.NewTextParser(model.UTF8Validation)
				_, err := parser.TextToMetricFamilies(bytes.NewReader(page))
				return err
			})
		})
	}
}

// BenchmarkScrape is one scrape over a loopback connection that is kept. The
// time includes the server's side, which runs in the same process.
func BenchmarkScrape(b *testing.B) {
	for _, name := range []string{"vllm-busy.txt", "llmd-simulator.txt"} {
		page := []byte(fixture(b, name))
		b.Run("page="+name, func(b *testing.B) {
			server := serve(b, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", textPlain)
				w.Header().Set("Content-Length", fmt.Sprint(len(page)))
				_, _ = w.Write(page)
			})
			pod := newWatch(NewWatcher(Config{}, nil), Target{BaseURL: server.URL})
			defer pod.close()
			measure(b, func() error { return pod.scrape(b.Context()).Err })
		})
	}
}

// measure runs the loop of a benchmark. Beside the usual it reports the processor
// time of the whole process, which unlike ns/op means something on a machine that
// others use too.
func measure(b *testing.B, once func() error) {
	b.ReportAllocs()
	from := cpuTime(b)
	for b.Loop() {
		if err := once(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-from)/float64(b.N), "cpu-ns/op")
}

func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
