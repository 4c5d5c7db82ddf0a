package cli

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func podColumns() []Column {
	return []Column{
		{Name: "POD", Min: 9},
		{Name: "SCORE", Right: true},
		{Name: "AGE", Right: true, Priority: 2},
		{Name: "NODE", Wide: true, Priority: 3},
		{Name: "WHY", Priority: 1},
	}
}

func TestTable(t *testing.T) {
	tests := []struct {
		name      string
		format    Format
		noHeaders bool
		want      string
	}{
		{name: "all of it, aligned", want: "" +
			"POD                       SCORE   AGE  WHY\n" +
			"llama-8b-7d9f8-x2kq9      0.810  0.4s  cache\n" +
			"模型-1                     0.38     –  –\n" +
			"evil\\x1b[31m\\npod\\u202e1      1    3s  a\\nb\n"},
		{name: "wide", format: FormatWide, want: "" +
			"POD                       SCORE   AGE  NODE  WHY\n" +
			"llama-8b-7d9f8-x2kq9      0.810  0.4s  gpu1  cache\n" +
			"模型-1                     0.38     –  gpu2  –\n" +
			"evil\\x1b[31m\\npod\\u202e1      1    3s  gpu3  a\\nb\n"},
		{name: "no headers", noHeaders: true, want: "" +
			"llama-8b-7d9f8-x2kq9      0.810  0.4s  cache\n" +
			"模型-1                     0.38     –  –\n" +
			"evil\\x1b[31m\\npod\\u202e1      1    3s  a\\nb\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, out, _ := Test()
			table := Printer{Streams: s, Format: test.format, NoHeaders: test.noHeaders}.Table(podColumns()...)
			fillPods(table)
			if err := table.Flush(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}

func fillPods(table *Table) {
	table.Row("llama-8b-7d9f8-x2kq9", "0.810", "0.4s", "gpu1", "cache")
	table.Row("模型-1", "0.38", "", "gpu2")
	table.Row("evil\x1b[31m\npod\u202e1", "1", "3s", "gpu3", "a\nb")
}

func TestTableOnATerminal(t *testing.T) {
	tests := []struct {
		name  string
		width int
		want  string
	}{
		{"wide enough", 80, "" +
			"POD                   SCORE   AGE  WHY\n" +
			"llama-8b-7d9f8-x2kq9  0.810  0.4s  cache\n" +
			"h7                        1    3s  queue\n"},
		{"names are cut in the middle", 36, "" +
			"POD               SCORE   AGE  WHY\n" +
			"llama-8b…8-x2kq9  0.810  0.4s  cache\n" +
			"h7                    1    3s  queue\n"},
		{"then columns leave by priority", 26, "" +
			"POD           SCORE  WHY\n" +
			"llama-…x2kq9  0.810  cache\n" +
			"h7                1  queue\n"},
		{"what must stay stays", 8, "" +
			"POD        SCORE\n" +
			"llam…2kq9  0.810\n" +
			"h7             1\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, out, _ := Test()
			s.OutIsTerminal, s.Width, s.Color = true, test.width, ColorNever
			table := Printer{Streams: s}.Table(podColumns()...)
			table.Row("llama-8b-7d9f8-x2kq9", "0.810", "0.4s", "gpu1", "cache")
			table.Row("h7", "1", "3s", "gpu1", "queue")
			if err := table.Flush(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSentencesAreCutAtTheirEnd(t *testing.T) {
	s, out, _ := Test()
	s.OutIsTerminal, s.Width, s.Color = true, 24, ColorNever
	table := Printer{Streams: s}.Table(Column{Name: "POOL"}, Column{Name: "AGE", Priority: 1}, Column{Name: "HEALTH", Min: 12, Sentence: true})
	table.Row("chat", "31d", "down: it selects no pod")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "POOL  AGE  HEALTH\n" +
		"chat  31d  down: it sel…\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestTableTones(t *testing.T) {
	s, out, _ := Test()
	s.OutIsTerminal, s.Width = true, 80
	table := Printer{Streams: s}.Table(Column{Name: "POD"}, Column{Name: "STATE"}, Column{Name: "N", Right: true})
	table.Cells(Cell{Text: "a"}, Cell{"DOWN", Bad}, Cell{"1", Faint})
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "\x1b[1mPOD\x1b[0m  \x1b[1mSTATE\x1b[0m  \x1b[1mN\x1b[0m\n" +
		"a    \x1b[1;7;31mDOWN\x1b[0m   \x1b[2m1\x1b[0m\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if table.Len() != 1 {
		t.Errorf("Len() = %d, want 1", table.Len())
	}
}

func TestTableFitsItsTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, out, _ := Test()
		s.OutIsTerminal, s.Color = true, ColorNever
		s.Width = rapid.IntRange(20, 120).Draw(t, "width")
		columns := []Column{{Name: "A", Min: 8}, {Name: "B", Priority: 1}, {Name: "C", Min: 3, Priority: 2}}
		table := Printer{Streams: s}.Table(columns...)
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			table.Row(rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b"), rapid.String().Draw(t, "c"))
		}
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			if w := ansi.StringWidth(line); w > s.Width {
				t.Fatalf("%q is %d cells wide on a terminal of %d", line, w, s.Width)
			}
			if Sanitize(line) != line {
				t.Fatalf("%q is not safe", line)
			}
		}
		if lines := strings.Count(out.String(), "\n"); lines != table.Len()+1 {
			t.Fatalf("%d lines for %d rows and a header", lines, table.Len())
		}
	})
}

func TestCutMiddle(t *testing.T) {
	tests := []struct {
		text  string
		width int
		want  string
	}{
		{"pod", 3, "pod"},
		{"pod-1234", 5, "po…34"},
		{"pod-1234", 6, "pod…34"},
		{"pod-1234", 1, "…"},
		{"pod-1234", 0, ""},
		{"模型模型模型", 6, "模…型"},
	}
	for _, test := range tests {
		if got := CutMiddle(test.text, test.width); got != test.want {
			t.Errorf("CutMiddle(%q, %d) = %q, want %q", test.text, test.width, got, test.want)
		}
	}
}
