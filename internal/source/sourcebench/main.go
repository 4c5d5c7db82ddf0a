// Command sourcebench measures how long look-ups in a million recorded decisions
// take, and in how much memory: .ci/records runs it. It makes a directory as the
// recorder would leave it (one decision each 10 ms, files of 64 MiB, indexes beside
// them but for the last, which is being written), and runs eppctl on it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/record"
)

func main() {
	b := bench{out: os.Stdout}
	flag.IntVar(&b.decisions, "n", 1_000_000, "how many decisions")
	flag.StringVar(&b.eppctl, "eppctl", "./eppctl", "the program")
	flag.StringVar(&b.dir, "dir", "", "the directory, which must be empty")
	flag.StringVar(&b.like, "like", "testdata/decisions/fleet.jsonl", "what they look like: the first line of this")
	flag.Parse()
	if err := b.run(context.Background()); err != nil {
		cli.PrintError(os.Stderr, fmt.Errorf("sourcebench: %w", err))
		os.Exit(cli.Status(err))
	}
}

type bench struct {
	out               io.Writer
	decisions         int
	eppctl, dir, like string
	now               time.Time
	template          [4][]byte // what stands between decision ID, request ID and time
}

// spacing is the time between two decisions.
const spacing = 10 * time.Millisecond

func (b *bench) run(ctx context.Context) error {
	b.now = clock.Wall{}.Now().UTC()
	if err := b.readTemplate(); err != nil {
		return err
	}
	if err := b.generate(); err != nil {
		return err
	}
	middle := requestID(b.decisions / 2)
	for _, args := range [][]string{
		{"explain", middle, "-o", "json"},
		{"explain", middle[:len(middle)-1], "-o", "json"}, // a prefix of ten
		{"explain", "nobody"},
		{"explain", "latest", "-o", "json"},
		{"decisions"},
		{"decisions", "--since", "1m", "-o", "jsonl"},
		{"decisions", "--since", "5m", "-o", "jsonl"},
		{"decisions", "--since", "15m", "-o", "jsonl"},
		{"decisions", "--until", b.now.Add(-time.Hour).Format(time.RFC3339)},
	} {
		if err := b.measure(ctx, args); err != nil {
			return err
		}
	}
	return nil
}

// measure prints the best of five runs, which are warm from the second on.
func (b *bench) measure(ctx context.Context, args []string) error {
	var best time.Duration
	var memory int64
	var lines int
	for range 5 {
		c := exec.CommandContext(ctx, b.eppctl, append(args, "-f", b.dir)...)
		var out newlines
		c.Stdout = &out
		begin := clock.Wall{}.Now()
		err := c.Run()
		took := clock.Wall{}.Now().Sub(begin)
		if c.ProcessState == nil {
			return err
		}
		if best == 0 || took < best {
			best = took
		}
		if usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
			memory = max(memory, usage.Maxrss)
		}
		lines = int(out)
	}
	_, err := fmt.Fprintf(b.out, "%-60.60s %8.0f ms %6d MiB %7d lines\n", fmt.Sprint(args), best.Seconds()*1000, memory>>10, lines)
	return err
}

// newlines counts what is written.
type newlines int

// Write implements [io.Writer].
func (n *newlines) Write(p []byte) (int, error) {
	*n += newlines(bytes.Count(p, []byte("\n")))
	return len(p), nil
}

// readTemplate cuts a line where its IDs and its time stand.
func (b *bench) readTemplate() error {
	raw, err := os.ReadFile(b.like)
	if err != nil {
		return err
	}
	rest, _, _ := bytes.Cut(raw, []byte("\n"))
	for i, key := range []string{`"decisionID":"`, `"requestID":"`, `"time":"`} {
		before, after, ok := bytes.Cut(rest, []byte(key))
		_, value, ended := bytes.Cut(after, []byte(`"`))
		if !ok || !ended {
			return fmt.Errorf("%s: no %s", b.like, key)
		}
		b.template[i] = append(bytes.Clone(before), key...)
		rest = append([]byte(`"`), value...)
	}
	b.template[3] = append(rest, '\n')
	return nil
}

func requestID(n int) string {
	return fmt.Sprintf("%08x-7f3a-4c1e-9b52-%012x", uint32(n)*2654435761, n)
}

func (b *bench) write(w io.Writer, n int) (int, error) {
	at := b.now.Add(-spacing * time.Duration(b.decisions-1-n))
	return fmt.Fprintf(w, "%s%08x-0000-4000-8000-%012x%s%s%s%s%s", b.template[0], uint32(n)*2246822519, n,
		b.template[1], requestID(n), b.template[2], at.Format(time.RFC3339Nano), b.template[3])
}

func (b *bench) generate() error {
	begin, files, size := clock.Wall{}.Now(), 0, int64(0)
	for n := 0; n < b.decisions; files++ {
		name := filepath.Join(b.dir, fmt.Sprintf("decisions-20261130T120000.%09dZ.jsonl", files))
		wrote, next, err := b.file(name, n)
		if err != nil {
			return err
		}
		if n = next; n < b.decisions {
			if err := record.WriteIndex(name); err != nil {
				return err
			}
		}
		size += wrote
	}
	took := clock.Wall{}.Now().Sub(begin).Round(time.Second)
	_, err := fmt.Fprintf(b.out, "%d decisions, %d files, %d MiB, made and indexed in %v\n", b.decisions, files, size>>20, took)
	return err
}

// file writes decisions from the n-th on until the file is full.
func (b *bench) file(name string, n int) (size int64, next int, err error) {
	out, err := os.Create(name)
	if err != nil {
		return 0, n, err
	}
	defer out.Close()
	w := bufio.NewWriterSize(out, 1<<20)
	for ; n < b.decisions && size < record.DefaultFileBytes; n++ {
		wrote, err := b.write(w, n)
		if err != nil {
			return size, n, err
		}
		size += int64(wrote)
	}
	return size, n, w.Flush()
}
