package cmd

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/cli"
)

// short is a simulation of a moment.
func short(more ...string) []string {
	return append([]string{"simulate", "gen:chat:requests=60:rate=10", "--pods", "2"}, more...)
}

func TestSimulatePrintsTables(t *testing.T) {
	out, errOut, status := runTest(t, short("--slo", "ttft=2s")...)
	if status != cli.ExitOK {
		t.Fatalf("status %d: %s", status, errOut)
	}
	for _, want := range []string{
		"gen:chat:requests=60:rate=10: 60 requests, ", " a second, on 2 a100 (llama-8b), seed 1\ngood: ttft=2s\n",
		"\neppctl ", "\nround-robin ", "\nleast-connections ", "less round-robin, and where 95% of bootstrap draws lie",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !strings.Contains(errOut, "180 requests simulated in ") || strings.Contains(errOut, "\r") {
		t.Errorf("standard error has %q", errOut)
	}
	if again, _, _ := runTest(t, short("--slo", "ttft=2s")...); again != out {
		t.Errorf("another time it prints\n%s", again)
	}
}

func TestSimulateAsJSON(t *testing.T) {
	out, _, status := runTest(t, short("-o", "json", "--policies", "eppctl,random", "--seed", "7")...)
	var r struct {
		APIVersion, Kind, Trace string
		Pods                    int
		Seed                    uint64
		Policies                []struct {
			Policy          string
			Requests        int
			CacheHitRatio   *float64
			TTFTSeconds     struct{ P50, P90, P99 float64 }
			LoadMaxOverMean float64
			GoodRatio       *float64
			Difference      []struct{ Metric string }
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != cli.ExitOK {
		t.Fatalf("status %d, %v", status, err)
	}
	if r.APIVersion != "eppctl/v1" || r.Kind != "Simulation" || r.Pods != 2 || r.Seed != 7 || len(r.Policies) != 2 {
		t.Errorf("%+v", r)
	}
	p := r.Policies[0]
	if p.Policy != "eppctl" || p.Requests != 60 || p.CacheHitRatio == nil || p.TTFTSeconds.P90 <= 0 || p.LoadMaxOverMean < 1 {
		t.Errorf("%+v", p)
	}
	if p.GoodRatio != nil || len(p.Difference) == 0 || r.Policies[1].Difference != nil {
		t.Errorf("without an SLO nothing is good, and random is the baseline: %+v", r.Policies)
	}
}

func TestSimulateAsCSV(t *testing.T) {
	out, _, status := runTest(t, short("-o", "csv")...)
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || status != cli.ExitOK || len(rows) != 4 || rows[1][0] != "eppctl" {
		t.Errorf("status %d, %v:\n%s", status, err, out)
	}
}

// Traces come from files of all kinds, and from standard input.
func TestSimulateReadsTraces(t *testing.T) {
	dir := t.TempDir()
	table := filepath.Join(dir, "x.csv")
	if err := os.WriteFile(table, []byte("time,input,output,group\n0,100,5,a\n1,200,5,a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(dir, "x.csv.gz")
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	if _, err := w.Write([]byte("time,input,output\n0,100,5\n1,200,5\n")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), os.WriteFile(packed, gz.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, trace, want string }{
		{"packed CSV", packed, ": 2 requests, 1.00 a second"},
		{"CSV", table, ": 2 requests, 1.00 a second"},
		{"Mooncake", "../testdata/traces/mooncake-2000.jsonl", ": 10 requests, "},
		{"decisions", "../testdata/decisions/fleet.jsonl", " requests, "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errOut, status := runTest(t, "simulate", tt.trace, "--limit", "10", "--policies", "eppctl")
			if status != cli.ExitOK || !strings.Contains(out, tt.want) {
				t.Errorf("status %d, %s%s", status, errOut, out)
			}
		})
	}
	s, out, _ := cli.Test()
	s.In = strings.NewReader("time,input,output\n0,100,5\n")
	if status := run(t.Context(), s, []string{"simulate", "-", "--policies", "eppctl"}); status != cli.ExitOK || !strings.Contains(out.String(), "-: 1 requests") {
		t.Errorf("from standard input: status %d, %s", status, out)
	}
}

// Of few requests, and of a policy that completed none, no difference is made up.
func TestSimulateTellsWhatIsUnknown(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "x.csv")
	write := func(requests int) {
		if err := os.WriteFile(trace, []byte("time,input,output\n"+strings.Repeat("0,100,2\n", requests)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	profile := filepath.Join(t.TempDir(), "dead.yaml")
	if err := os.WriteFile(profile, []byte("blocks: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"simulate", trace, "--policies", "eppctl,random"}
	write(9)
	out, _, _ := runTest(t, args...)
	if !strings.Contains(out, "x.csv: 9 requests, all at once,") || !strings.Contains(out, "no differences from random: too few requests") {
		t.Errorf("of nine at once:\n%s", out)
	}
	write(20)
	out, _, _ = runTest(t, append(args, "--profile", profile, "--slo", "ttft=1s")...)
	if !strings.Contains(strings.Join(strings.Fields(out), " "), "eppctl – – – – – – 0.0%") {
		t.Errorf("nothing completed has figures:\n%s", out)
	}
	if last := lastLine(out); strings.Join(strings.Fields(last), " ") != "eppctl – – – 0.0 (0.0 to 0.0)" {
		t.Errorf("of nothing completed: %s", last)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func TestSimulateShowsProgress(t *testing.T) {
	if got, want := progressBar(30, 120), "\rsimulating [#######.......................]  25%\x1b[K"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s, _, errOut := cli.Test()
	s.ErrIsTerminal = true
	if status := run(t.Context(), s, short()); status != cli.ExitOK || !strings.Contains(errOut.String(), "\r\x1b[K") {
		t.Errorf("status %d, and on the terminal %q", status, errOut)
	}
}

func TestSimulateRefuses(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"simulate"}, cli.ExitUsage, "one TRACE is needed, got 0"},
		{[]string{"simulate", "nowhere.jsonl"}, cli.ExitError, "nowhere.jsonl"},
		{[]string{"simulate", "gen:chats"}, cli.ExitUsage, `no generator "chats"`},
		{short("--policies", "epctl"), cli.ExitUsage, `--policies: policy "epctl": did you mean eppctl?`},
		{short("--policies", "eppctl,eppctl"), cli.ExitUsage, "--policies: eppctl stands there twice"},
		{short("--baseline", "random"), cli.ExitUsage, `--baseline: "random" is not among the policies`},
		{short("--pods", "h100=2"), cli.ExitUsage, `--pods: pods "h100=2": no GPU "h100"`},
		{short("--profile", "llama-9b"), cli.ExitUsage, `--profile: no profile "llama-9b"; there are llama-8b, llama-70b, and no file`},
		{short("--slo", "e2e=1s"), cli.ExitUsage, `--slo: SLO "e2e=1s": no limit "e2e"`},
		{short("--rate", "3", "--scale", "2"), cli.ExitUsage, "--rate: must be above 0, and does not go with --scale"},
		{short("--rate", "0"), cli.ExitUsage, "--rate: must be above 0"},
		{short("--rate", "nan"), cli.ExitUsage, "--rate: must be above 0"},
		{short("--config", "nowhere.yaml"), cli.ExitUsage, "--config: open nowhere.yaml"},
		{short("--windows", "1"), cli.ExitUsage, "--windows: of one there is nothing to draw"},
		{short("--scale", "0"), cli.ExitUsage, "a factor of 0 on arrivals"},
		{short("--limit", "-1"), cli.ExitUsage, "--limit: must not be negative"},
		{short("-o", "xml"), cli.ExitUsage, "unknown output format"},
	} {
		t.Run(strings.Join(tt.args[1:], " "), func(t *testing.T) {
			out, errOut, status := runTest(t, tt.args...)
			if status != tt.status || !strings.Contains(errOut, tt.want) || out != "" {
				t.Errorf("status %d, %q, want %d and %q", status, errOut, tt.status, tt.want)
			}
		})
	}
}
