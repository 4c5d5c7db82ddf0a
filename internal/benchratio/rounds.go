package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// round is what one run of all packages measured.
type round map[figure]float64

// runner builds and runs test binaries.
type runner struct {
	benchtime string
	progress  io.Writer
}

// rounds builds each package's test binary once and runs them all count times.
func (r runner) rounds(ctx context.Context, limits []limit, count int) ([]round, error) {
	dir, err := os.MkdirTemp("", "bench-ratios-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the test binaries: %w", err)
	}
	defer os.RemoveAll(dir)
	order, benchmarks := packages(limits)
	for i, pkg := range order {
		fmt.Fprintf(r.progress, "build %s\n", pkg)
		build := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary(dir, i), "./"+pkg)
		build.Stdout, build.Stderr = r.progress, r.progress
		if err := build.Run(); err != nil {
			return nil, fmt.Errorf("build the tests of %s: %w", pkg, err)
		}
	}
	rounds := make([]round, count)
	for n := range rounds {
		rounds[n] = round{}
		for i, pkg := range order {
			fmt.Fprintf(r.progress, "round %d of %d: %s\n", n+1, count, pkg)
			measured, err := r.one(ctx, binary(dir, i), pkg, benchmarks[pkg])
			if err != nil {
				return nil, err
			}
			maps.Copy(rounds[n], measured)
		}
	}
	return rounds, nil
}

func binary(dir string, i int) string {
	return filepath.Join(dir, strconv.Itoa(i)+".test")
}

func (r runner) one(ctx context.Context, binary, pkg string, benchmarks []string) (round, error) {
	pattern := "^(" + strings.Join(benchmarks, "|") + ")$"
	command := exec.CommandContext(ctx, binary,
		"-test.run=^$", "-test.bench="+pattern, "-test.benchmem", "-test.benchtime="+r.benchtime, "-test.timeout=30m")
	command.Dir = pkg // a test's directory is its package's
	var out strings.Builder
	command.Stdout, command.Stderr = &out, r.progress
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("run the benchmarks of %s: %w\n%s", pkg, err, out.String())
	}
	return parseRound(out.String(), runtime.GOMAXPROCS(0)), nil
}

// resultLine is a benchmark's line: name, iterations, measurements.
var resultLine = regexp.MustCompile(`^(Benchmark\S+)\s+\d+\s+(\S.*)$`)

// parseRound reads what a test binary printed. Lines that are no results are
// skipped; go test ends each name with the number of processors unless it is 1.
// Beside what was printed, each benchmark gets its rate in op/s.
func parseRound(out string, procs int) round {
	measured := round{}
	suffix := "-" + strconv.Itoa(procs)
	scanner := bufio.NewScanner(strings.NewReader(out))
	for scanner.Scan() {
		match := resultLine.FindStringSubmatch(scanner.Text())
		if match == nil {
			continue
		}
		name := match[1]
		if procs > 1 {
			name = strings.TrimSuffix(name, suffix)
		}
		fields := strings.Fields(match[2])
		for i := 0; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				break
			}
			measured[figure{name, fields[i+1]}] = value
			if fields[i+1] == "ns/op" && value > 0 {
				measured[figure{name, "op/s"}] = 1e9 / value
			}
		}
	}
	return measured
}
