package source_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/source"
)

const (
	ourLine  = `{"time":"2026-11-30T12:00:00Z","level":"DEBUG","msg":"scoring complete","record":"`
	llmdLine = `{"level":"debug","ts":1796000001,"msg":"Before running filter plugins","x-request-id":"x","endpoints":"`
)

// One line that is too long is left out with its position, whatever it is written in,
// and what follows is read.
func TestLongLineCostsItself(t *testing.T) {
	before, after := pickerLog(t, "DEBUG", decision(1, "a")), pickerLog(t, "DEBUG", decision(2, "b"))
	long := strings.Repeat("x", 2*record.MaxLine)
	for _, tc := range []struct{ name, line, warning string }{
		{"ours", ourLine + long + "\"}\n", "input: line 5: longer than 16 MiB"},
		{"ours in parts", parted(ourLine + long + "\"}\n"), "longer than 16 MiB with the parts"},
		{"llm-d's", llmdLine + long + "\"}\n", "input: line 5: longer than 16 MiB"},
		{"llm-d's, not quite so long", llmdLine + long[:9<<20] + "\"}\n", "input: line 5: a line of the picker's log that can't be read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, path := range []string{file(t, before+tc.line+after), "-"} {
				r := open(t, path, before+tc.line+after)
				ids, _, err := r.ids(t, admin.Filter{})
				if err != nil || strings.Join(ids, "") != "ba" {
					t.Errorf("%s: decisions %q, %v", path, ids, err)
				}
				want := strings.Replace(tc.warning, "input", filepath.Base(path), 1)
				if w := *r.warnings; len(w) != 1 || !strings.Contains(w[0], want) || strings.Contains(w[0], "lines skipped") {
					t.Errorf("%s: warnings %q, want one with %q", path, w, want)
				}
			}
		})
	}
}

// What is wrong with a log that is followed is told when it is found, and once.
func TestFollowTellsAtOnce(t *testing.T) {
	bad := ourLine + "cut off\n"
	in, log := io.Pipe()
	var told []string
	opts := source.Options{Warn: func(text string) { told = append(told, text) }}
	var early int
	go func() {
		for _, text := range []string{bad, pickerLog(t, "DEBUG", decision(1, "a")), bad} {
			_, _ = io.WriteString(log, text) // fails when nobody reads on, and then the test does
		}
		log.Close()
	}()
	err := source.Follow(t.Context(), "log of chat-epp-1", in, source.Want{}, opts, func(*explain.Record) error {
		early = len(told)
		return nil
	})
	if err != nil || early != 1 || len(told) != 1 || !strings.HasPrefix(told[0], "log of chat-epp-1: line 1: ") {
		t.Errorf("%v; %d told before the decision, in all %q", err, early, told)
	}
}

// A text that breaks off costs what is left of it; the next is read.
func TestTextThatBreaksOff(t *testing.T) {
	log := func(id string) string { return pickerLog(t, "DEBUG", decision(1, id)) }
	lost := errors.New("connection lost")
	var told []string
	files := source.FromTexts("log of a, b", []source.Text{
		{Name: "log of a", In: io.MultiReader(strings.NewReader(log("a")+log("x")[:100]), iotest.ErrReader(lost))},
		{Name: "log of b", In: strings.NewReader(log("b"))},
	}, source.Options{Twice: true, Warn: func(text string) { told = append(told, text) }})
	for range 2 {
		var ids []string
		if _, err := files.Each(t.Context(), source.Want{}, func(rec *explain.Record) error {
			ids = append(ids, rec.RequestID)
			return nil
		}); err != nil || len(ids) != 2 {
			t.Errorf("decisions %q, %v", ids, err)
		}
	}
	if got := strings.Join(told, "\n"); got != "log of a: read line 6: connection lost" {
		t.Errorf("warnings %q", got)
	}
}

// A rotated file whose packed copy was cut short costs what is left of it.
func TestRotatedFileCutShort(t *testing.T) {
	dir := t.TempDir()
	cut := zipped(t, strings.Repeat(pickerLog(t, "DEBUG", decision(2, "b")), 500))
	for i, part := range []struct{ name, text string }{
		{"0.log.20261130-120000.gz", zipped(t, pickerLog(t, "DEBUG", decision(1, "a")))},
		{"0.log.20261130-130000.gz", cut[:len(cut)/2]},
		{"0.log.20261130-140000.gz", cut[:5]},
		{"0.log", pickerLog(t, "DEBUG", decision(3, "c"))},
	} {
		at := start.Add(time.Duration(i) * time.Hour)
		if err := os.Chtimes(write(t, filepath.Join(dir, part.name), part.text), at, at); err != nil {
			t.Fatal(err)
		}
	}
	r := open(t, dir, "")
	ids, _, err := r.ids(t, admin.Filter{})
	if err != nil || strings.Join(ids, "") != "cba" {
		t.Errorf("decisions %q, %v", ids, err)
	}
	got := strings.Join(*r.warnings, "\n")
	for _, want := range []string{"130000.gz: read line ", "unpack gzip: unexpected EOF", "140000.gz: unpack gzip: "} {
		if !strings.Contains(got, want) {
			t.Errorf("warnings %q, want %q", got, want)
		}
	}
}
