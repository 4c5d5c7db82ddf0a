package engine

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestReaderReadsEachPageAnew(t *testing.T) {
	var r Reader
	read := func(text, contentType string) (Page, error) {
		return r.Read(strings.NewReader(text), contentType)
	}
	const waiting = "vllm:num_requests_waiting "
	for i, tt := range []struct {
		text, contentType string
		want              Value
	}{
		{waiting + "1\n", textPlain, val("vllm:num_requests_waiting", 1)},
		{"# changed\n" + waiting + "1\n", textPlain, val("vllm:num_requests_waiting", 1)},
		{waiting + "2\n", textPlain, val("vllm:num_requests_waiting", 2)},
		{waiting + "many\n", textPlain, unknown("", `page is malformed: expected float as value, got "many"`)},
		{waiting + "2\n", textPlain, val("vllm:num_requests_waiting", 2)},
		{waiting + "2\n", "text/html", unknown("", "page is HTML, not metrics")},
		{waiting + "2\n", protoType, unknown("", "page is malformed: a protobuf frame is cut")},
		{"up 1\n", textPlain, unknown("", "page has no series of vLLM, SGLang or trtllm-serve")},
		{waiting + "2\n", "", val("vllm:num_requests_waiting", 2)},
	} {
		p, _ := read(tt.text, tt.contentType)
		if diff := cmp.Diff(tt.want, p.Waiting); diff != "" {
			t.Errorf("page %d: waiting (-want +got):\n%s", i, diff)
		}
	}
}

func TestPageThatHasNotChangedIsNotDecodedAgain(t *testing.T) {
	page := fixture(t, "vllm-busy.txt")
	var r Reader
	ranks := func(page string) *Rank {
		t.Helper()
		p, err := r.Read(strings.NewReader(page), textPlain)
		if err != nil || len(p.Ranks) != 1 {
			t.Fatalf("error %v, ranks %v", err, p.Ranks)
		}
		return &p.Ranks[0]
	}
	first := ranks(page)
	if ranks("process_cpu_seconds_total 7\n"+page) != first {
		t.Error("decoded again, though only what is not read has changed")
	}
	if ranks(strings.Replace(page, "vllm:num_requests_running{", `vllm:num_requests_running{x="",`, 1)) == first {
		t.Error("not decoded again, though a series has changed")
	}
}

func TestPageInPieces(t *testing.T) {
	page := fixture(t, "vllm-lora-busy.txt")
	long := "# HELP up " + strings.Repeat("x", 3*maxLineBytes) + "\n"
	page = long + strings.Replace(page, "\nvllm:num", "\n"+long+"vllm:num", 2) + "vllm:other " + strings.Repeat("1", maxLineBytes-11)
	want := parse(t, fixture(t, "vllm-lora-busy.txt"))
	for name, body := range map[string]io.Reader{
		"whole":    strings.NewReader(page),
		"halves":   iotest.HalfReader(strings.NewReader(page)),
		"bytes":    iotest.OneByteReader(strings.NewReader(page)),
		"with EOF": iotest.DataErrReader(strings.NewReader(page)),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParsePage(body, textPlain, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
	for i := range 200 { // a chunk's end at each place of a line
		got := parse(t, "#"+strings.Repeat("x", maxLineBytes-100-i)+"\nvllm:num_requests_waiting{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"0\"} 4\n")
		if got.Waiting.V != 3 || got.Running.V != 4 {
			t.Fatalf("chunk that ends %d bytes earlier: %+v", i, got)
		}
	}
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

func TestBodyWithoutProgress(t *testing.T) { // case M8
	if _, err := ParsePage(silent{}, textPlain, Limits{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("error %v, want %v", err, io.ErrNoProgress)
	}
}

func TestEngineThatIsSet(t *testing.T) {
	const both = "vllm:num_requests_waiting 1\nsglang:num_queue_reqs 2\n"
	for engine, want := range map[string]Value{
		"":       val("vllm:num_requests_waiting", 1),
		"vllm":   val("vllm:num_requests_waiting", 1),
		"sglang": val("sglang:num_queue_reqs", 2),
		"trtllm": unknown("", "page has no series of trtllm, which the endpoint is said to be"),
	} {
		t.Run(engine, func(t *testing.T) {
			p, err := (&Reader{Engine: engine}).Read(strings.NewReader(both), textPlain)
			if diff := cmp.Diff(want, p.Waiting); diff != "" || err != nil {
				t.Errorf("error %v, waiting (-want +got):\n%s", err, diff)
			}
		})
		if Known(engine) != (engine != "") {
			t.Errorf("Known(%q) = %t", engine, Known(engine))
		}
	}
}

// Types of OpenMetrics that the classic format has not.
func TestTypesOfOpenMetrics(t *testing.T) {
	for _, name := range []string{"unknown", "info", "stateset"} {
		p := parse(t, "# TYPE vllm:num_requests_waiting "+name+"\nvllm:num_requests_waiting 3\n# EOF\n")
		if diff := cmp.Diff(val("vllm:num_requests_waiting", 3), p.Waiting); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFamilyWithoutValuesIsAbsent(t *testing.T) {
	p := parse(t, "vllm:num_requests_running 1\n# TYPE vllm:num_requests_waiting histogram\nvllm:num_requests_waiting 3\n")
	if diff := cmp.Diff(unknown("", "page has no vllm:num_requests_waiting"), p.Waiting); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
}
