package source_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/heaptest"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/source"
)

// prefixed puts something before each line.
func prefixed(text, prefix string) string {
	return prefix + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+prefix) + "\n"
}

// parted cuts each line as CRI does, between lines of another stream.
func parted(text string) string {
	var b strings.Builder
	const stamp = "2026-11-30T12:00:00.123456789Z "
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for len(line) > 100 {
			fmt.Fprintf(&b, "%sstderr P %s\n%sstdout F something else\n", stamp, line[:100], stamp)
			line = line[100:]
		}
		fmt.Fprintf(&b, "%sstderr F %s\n", stamp, line)
	}
	return b.String()
}

func docker(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text) {
		for _, part := range []string{line[:50], line[50:]} {
			raw, err := json.Marshal(map[string]string{"log": part, "stream": "stderr", "time": "2026-11-30T12:00:00Z"})
			if err != nil {
				t.Fatal(err)
			}
			// Docker writes the log first, as encoding/json does here by the alphabet.
			fmt.Fprintln(&b, string(raw))
		}
	}
	return b.String()
}

// Whatever decisions are wrapped in, the same come out of it, newest first.
func TestOneReaderForAllKinds(t *testing.T) {
	plain := three(t)
	for name, content := range map[string]string{
		"plain":              plain,
		"gzip":               zipped(t, plain),
		"gzip in two parts":  zipped(t, plain[:900]) + zipped(t, plain[900:]),
		"zstd":               zstandard(t, plain),
		"kubectl --prefix":   prefixed(plain, "[pod/picker-0/eppctl] "),
		"with timestamps":    prefixed(plain, "2026-11-30T12:00:00.123456789Z "),
		"among other lines":  "Defaulted container \"eppctl\"\n" + prefixed(plain, "[pod/picker-0/eppctl] ") + "\n\n  {\"level\":\"info\"}\nbye",
		"a runtime's file":   parted(plain),
		"Docker's file":      docker(t, plain),
		"Windows line ends":  strings.ReplaceAll(plain, "\n", "\r\n"),
		"a byte order mark":  "\ufeff" + plain,
		"no newline at last": strings.TrimSuffix(plain, "\n"),
		"the picker's log":   pickerLog(t, "DEBUG", decision(1, "abc-1"), decision(3, "abc-2"), decision(2, "xyz")),
		"that log, prefixed": prefixed(pickerLog(t, "DEBUG", decision(1, "abc-1"), decision(3, "abc-2"), decision(2, "xyz")), "picker-0 eppctl "),
	} {
		t.Run(name, func(t *testing.T) {
			want := []string{"abc-2", "xyz", "abc-1"}
			for _, from := range []reader{open(t, file(t, content), ""), open(t, "-", content)} {
				ids, more, err := from.ids(t, admin.Filter{})
				if !slices.Equal(ids, want) || more || err != nil {
					t.Errorf("Each = %v, %v, %v; want %v", ids, more, err, want)
				}
			}
			found, err := open(t, file(t, content), "").Find(t.Context(), "xy", 1)
			if err != nil || found.Record.RequestID != "xyz" || found.Count != 1 {
				t.Errorf("Find = %+v, %v", found, err)
			}
			found, err = open(t, file(t, content), "").Find(t.Context(), record.Latest, 1)
			if err != nil || found.Record.RequestID != "abc-2" {
				t.Errorf("Find(latest) = %+v, %v", found, err)
			}
		})
	}
}

// The log of a stock picker is the same decisions in whatever a runtime wrote it to.
func TestStockPickersLog(t *testing.T) {
	packed := "../llmdlog/testdata/v0.9.0.jsonl.gz"
	raw, err := os.Open(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	unpacked, err := gzip.NewReader(raw)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := open(t, packed, "").ids(t, admin.Filter{})
	if err != nil || len(want) == 0 {
		t.Fatalf("%d decisions, %v", len(want), err)
	}
	for name, content := range map[string]string{"a runtime's file": parted(string(text)), "Docker's file": docker(t, string(text))} {
		r := open(t, file(t, content), "")
		if ids, _, err := r.ids(t, admin.Filter{}); !slices.Equal(ids, want) || err != nil || len(*r.warnings) > 0 {
			t.Errorf("%s: %v, %v, warnings %q; want %v", name, ids, err, *r.warnings, want)
		}
	}
}

// pickerLog is what our picker logs at a level: what was decided, and how it ended.
func pickerLog(t *testing.T, level string, list ...*explain.Record) string {
	t.Helper()
	var b strings.Builder
	line := func(fields ...any) {
		b.WriteString(`{"time":"2026-11-30T12:00:00Z"`)
		for i := 0; i < len(fields); i += 2 {
			raw, err := json.Marshal(fields[i+1])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, ",%q:%s", fields[i], raw)
		}
		b.WriteString("}\n")
	}
	line("level", "INFO", "msg", "serving", "version", "dev")
	for _, rec := range list {
		if level == "DEBUG" {
			scored := *rec
			scored.Outcome = explain.Outcome{State: explain.OutcomePending}
			line("level", "DEBUG", "msg", "scoring complete", "requestID", rec.RequestID, "decisionID", rec.DecisionID, "record", &scored)
		}
		line("level", "INFO", "msg", "pod selected", "requestID", rec.RequestID, "decisionID", rec.DecisionID, "selectedPod", rec.Result.Pod)
	}
	for _, rec := range list {
		line("level", "INFO", "msg", "request completed", "requestID", rec.RequestID, "selectedPod", rec.Result.Pod, "status", 200, "ttftMs", 250)
	}
	return b.String()
}

func TestPickersLogTellsTheOutcome(t *testing.T) {
	whole := pickerLog(t, "DEBUG", decision(1, "a"))
	found, err := open(t, "-", whole).Find(t.Context(), "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	want := explain.Outcome{State: explain.OutcomeDone, Status: 200, TTFTSeconds: new(.25)}
	if diff := cmp.Diff(want, found.Record.Outcome); diff != "" {
		t.Error(diff)
	}
	begun := whole[:strings.Index(whole, `{"time":"2026-11-30T12:00:00Z","level":"INFO","msg":"request completed"`)]
	found, err = open(t, "-", begun).Find(t.Context(), "a", 1)
	if err != nil || found.Record.Outcome.State != explain.OutcomeUnknown {
		t.Errorf("without the line that ends it: %+v, %v; want an unknown outcome", found.Record, err)
	}
}

func TestLogAtALevelThatCantAnswer(t *testing.T) {
	log := pickerLog(t, "INFO", decision(1, "a"))
	_, _, err := open(t, "-", log).ids(t, admin.Filter{})
	e, ok := errors.AsType[*source.LevelError](err)
	if !ok || e.Level != "level info" || e.Needed != "debug" || !strings.Contains(e.How, "EPPCTL_LOG_LEVEL=debug") {
		t.Errorf("Each: %v", err)
	}
	_, err = open(t, "-", log).Find(t.Context(), "a", 1)
	if missing, ok := errors.AsType[*source.MissingError](err); !ok || !strings.Contains(missing.Why, "it went to pod-1, but what that was decided from is logged at level debug only") {
		t.Errorf("Find: %v", err)
	}
	_, err = open(t, "-", log).Find(t.Context(), "b", 1)
	if _, ok := errors.AsType[*source.LevelError](err); !ok {
		t.Errorf("Find of an ID that is not there: %v", err)
	}
}

// Each bad line costs itself; a text in which nothing is known is an error.
func TestBadInput(t *testing.T) {
	plain := three(t)
	other := strings.Replace(jsonl(t, decision(9, "new")), "eppctl/v1", "eppctl/v2", 1)
	for _, tc := range []struct {
		name, content string
		want          int    // decisions
		warning       string // "" = none
		err           string
	}{
		{"a cut last line", plain[:len(plain)-50], 2, "input: line 3: the line is cut off", ""},
		{"another version among them", plain + other, 3, `input: line 4: apiVersion: must be "eppctl/v1", got "eppctl/v2"`, ""},
		{"nothing but another version", other, 0, "", `input: line 1: apiVersion: must be "eppctl/v1", got "eppctl/v2"`},
		{"lines of another program", "oops\n" + plain + "oops\n", 3, "input: 2 lines skipped, the first is line 1: neither a decision nor a line of a log", ""},
		{"only another program", "level=info msg=hello\nx\n", 0, "", "input: line 1: neither a decision nor a line of a log"},
		{"other JSON", `{"level":"info"}` + "\n", 0, "", `input: line 1: no "apiVersion" and "kind"`},
		{"binary", "\x7fELF\x02\x01\x00\x00\x00", 0, "", "input: line 1: binary"},
		{"UTF-16", "\xff\xfe{\x00\n\x00", 0, "", "input: line 1: UTF-16: make it UTF-8 first"},
		{"a line too long", strings.Repeat("x", record.MaxLine+1) + "\n" + plain, 3, "input: line 1: longer than 16 MiB", ""},
		{"a part too long", `{"log":"` + strings.Repeat("\xff", record.MaxLine/2) + `","stream":"stderr"}` + "\n" + plain, 3, "input: line 1: longer than 16 MiB with the parts", ""},
		{"cut gzip", zipped(t, strings.Repeat(plain, 500))[:2000], -1, "unpack gzip: unexpected EOF", ""},
		{"damaged zstd", zstandard(t, plain)[:40], 0, "", "unpack zstd: "},
		{"a cut line of the log", pickerLog(t, "DEBUG", decision(1, "a")) + pickerLog(t, "DEBUG", decision(2, "b"))[:600], 1, "a line of the picker's log that can't be read", ""},
		{"nothing", "", 0, "", ""},
		{"blank lines", "\n \n", 0, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := open(t, file(t, tc.content), "")
			ids, _, err := r.ids(t, admin.Filter{})
			if tc.want >= 0 && len(ids) != tc.want || tc.want < 0 && len(ids) == 0 {
				t.Errorf("%d decisions, want %d", len(ids), tc.want)
			}
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if got := strings.Join(*r.warnings, "\n"); (got != "") != (tc.warning != "") || !strings.Contains(got, tc.warning) {
				t.Errorf("warnings %q, want %q", got, tc.warning)
			}
		})
	}
}

// What unpacks to a single line of 256 MiB takes a few of memory.
func TestBombIsBounded(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	for range 256 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r := open(t, "-", packed.String())
	var err error
	took := heaptest.Allocated(1, func() { _, _, err = r.ids(t, admin.Filter{}) })
	if err == nil || !strings.Contains(err.Error(), "line 1: longer than 16 MiB") {
		t.Errorf("error %v", err)
	}
	if took > 128<<20 {
		t.Errorf("took %d MiB", took>>20)
	}
}

// A directory of rotated files, some packed, is one list.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	name := func(n int, rest string) string {
		return filepath.Join(dir, fmt.Sprintf("decisions-2026113%dT000000.000000000Z.jsonl%s", n, rest))
	}
	write(t, name(1, ".gz"), zipped(t, jsonl(t, decision(1, "a"), decision(2, "b"))))
	write(t, name(2, ".zst"), zstandard(t, jsonl(t, decision(3, "c"), decision(6, "f"))))
	third := write(t, name(3, ""), jsonl(t, decision(5, "e"), decision(4, "d"), decision(8, "h")))
	if err := record.WriteIndex(third); err != nil {
		t.Fatal(err)
	}
	write(t, name(4, ""), jsonl(t, decision(7, "g"), decision(9, "i"))+`{"apiVersion":"eppctl/v1","ki`) // being written
	write(t, filepath.Join(dir, ".hidden"), "oops")
	write(t, filepath.Join(dir, "README"), "read me\n")
	for _, tc := range []struct {
		name   string
		filter admin.Filter
		want   string
		more   bool
	}{
		{"all", admin.Filter{}, "i h g f e d c b a", false},
		{"a limit", admin.Filter{Limit: 4}, "i h g f", true},
		{"exactly the limit", admin.Filter{Limit: 9}, "i h g f e d c b a", false},
		{"since", admin.Filter{Since: "54s"}, "i h g f", false},
		{"until", admin.Filter{Until: start.Add(4 * time.Second).Format(time.RFC3339)}, "c b a", false},
		{"a pod that is not there", admin.Filter{Pod: "x"}, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := open(t, dir, "")
			ids, more, err := r.ids(t, tc.filter)
			if got := strings.Join(ids, " "); got != tc.want || more != tc.more || err != nil {
				t.Errorf("%s, %v, %v; want %s, %v", got, more, err, tc.want, tc.more)
			}
		})
	}
	for id := range strings.FieldsSeq("a c d h i") {
		found, err := open(t, dir, "").Find(t.Context(), id, 1)
		if err != nil || found.Record.RequestID != id {
			t.Errorf("Find(%s) = %+v, %v", id, found, err)
		}
	}
	_, err := open(t, dir, "").Find(t.Context(), "zz", 1)
	if e, ok := errors.AsType[*source.MissingError](err); !ok || e.Read != 9 || !e.Oldest.Equal(start.Add(time.Second)) || !e.Newest.Equal(start.Add(9*time.Second)) {
		t.Errorf("Find(zz) = %v: want what was read", err)
	}
	t.Run("empty", func(t *testing.T) {
		if ids, _, err := open(t, t.TempDir(), "").ids(t, admin.Filter{}); len(ids) > 0 || err != nil {
			t.Errorf("%v, %v", ids, err)
		}
	})
}

// A log that was rotated while a request ran is read as one.
func TestDirectoryOfALog(t *testing.T) {
	dir := t.TempDir()
	log := pickerLog(t, "DEBUG", decision(1, "a"))
	half := strings.Index(log, `{"time":"2026-11-30T12:00:00Z","level":"INFO","msg":"pod selected"`)
	for i, part := range []struct{ name, text string }{{"0.log.20261130-120000.gz", zipped(t, log[:half])}, {"0.log", log[half:]}} {
		at := start.Add(time.Duration(i) * time.Hour)
		if err := os.Chtimes(write(t, filepath.Join(dir, part.name), part.text), at, at); err != nil {
			t.Fatal(err)
		}
	}
	found, err := open(t, dir, "").Find(t.Context(), "a", 1)
	if err != nil || found.Record.Outcome.Status != 200 {
		t.Errorf("Find = %+v, %v; want the outcome that the second file tells", found, err)
	}
}

// Without a limit, in any order, nothing is held: a text that is made as it is read
// is never ahead of the visits by more than a buffer.
func TestStreams(t *testing.T) {
	one := jsonl(t, decision(1, "0000"))
	const decisions = 5000
	read, visits, ahead := 0, 0, 0
	in := readerFunc(func(p []byte) (int, error) {
		if read == decisions {
			return 0, io.EOF
		}
		read++
		return copy(p, strings.ReplaceAll(one, "0000", fmt.Sprintf("%04d", read%decisions))), nil
	})
	src, err := source.Open("-", source.Options{Stdin: in})
	if err != nil {
		t.Fatal(err)
	}
	_, err = src.Each(t.Context(), source.Want{AnyOrder: true}, func(*explain.Record) error {
		visits++
		ahead = max(ahead, read-visits)
		return nil
	})
	if limit := 2*(64<<10)/len(one) + 2; err != nil || visits != decisions || ahead > limit {
		t.Errorf("%d visits, at most %d lines ahead, %v; want %d and at most %d", visits, ahead, err, decisions, limit)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestVisitsEndWithTheirError(t *testing.T) {
	stop := errors.New("enough")
	for _, order := range []bool{true, false} {
		_, err := open(t, "-", three(t)).Each(t.Context(), source.Want{AnyOrder: order}, func(*explain.Record) error { return stop })
		if !errors.Is(err, stop) {
			t.Errorf("any order %v: %v", order, err)
		}
	}
}
