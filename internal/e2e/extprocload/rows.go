package main

// row is one kind of work that both pickers get.
type row struct {
	name     string
	streams  int
	requests int // of one run
	work     workload
	checks   []check
}

// check is one figure of a row, and what it must be.
type check struct {
	figure string
	of     func(*result) *float64
	by     relation
	most   float64 // 0: the figure is only shown
	note   string  // where the limit comes from, or what others need
}

// relation says which number counts.
type relation int

const (
	timesNoop  relation = iota // ours divided by the no-op picker's, pair by pair
	beyondNoop                 // ours minus the no-op picker's, pair by pair
	alone                      // ours
)

const benchModel = "meta-llama/Llama-3.1-8B-Instruct"

// rows are the promises. The stock picker's figures were measured with the same
// work on the same kind of machine, at its default log level.
func rows() []row {
	small := func(bytes, prompts int) workload { return workload{model: benchModel, bytes: bytes, prompts: prompts} }
	kb1, kb32, kb400 := small(1<<10, 64), small(32<<10, 64), small(400<<10, 16)
	shown := []check{
		{figure: "CPU ms per request", of: cpuOf, by: timesNoop},
		{figure: "requests/s", of: rateOf, by: timesNoop},
		{figure: "allocations per request", of: allocsOf, by: beyondNoop},
		{figure: "CPU ms per second, idle", of: idleOf, by: alone},
	}
	with := func(checks ...check) []check { return append(checks, shown...) }
	p50 := func(most float64, note string) check {
		return check{"header reply p50, ms", p50Of, timesNoop, most, note}
	}
	p99 := func(most float64) check { return check{"header reply p99, ms", p99Of, timesNoop, most, ""} }
	cpu := func(most float64, note string) check {
		return check{"CPU ms per request, by itself", cpuOf, alone, most, note}
	}
	cheap := check{"CPU ms per request", cpuOf, timesNoop, 1.5, ""}
	return []row{
		{"1 KB, 1 stream", 1, 20_000, kb1, append([]check{
			p50(1.3, "stock 0.6 ms"), p99(1.6), cheap, cpu(0.97/2, "1/2 of stock 0.97"),
		}, shown[1:]...)},
		{"1 KB, 32 streams", 32, 40_000, kb1, append([]check{
			p50(1.3, "stock 4.6 ms"), p99(1.6), cheap, cpu(0.56/2, "1/2 of stock 0.56"),
		}, shown[1:]...)},
		{"32 KB, 1 stream", 1, 5_000, kb32, with(p50(0, "stock 2.2 ms"), p99(0), cpu(3.0/5, "1/5 of stock 3.0"))},
		{"32 KB, 32 streams", 32, 10_000, kb32, with(p50(0, "stock 17 ms"), p99(0), cpu(2.3/5, "1/5 of stock 2.3"))},
		{"400 KB, 1 stream", 1, 1_500, kb400, with(p50(2, "stock 17.5 ms"), p99(0), cpu(24.0/10, "1/10 of stock 24"))},
		{"400 KB, 32 streams", 32, 2_500, kb400, with(p50(2, "stock 150 ms"), p99(0), cpu(19.0/10, "1/10 of stock 19"))},
	}
}

func p50Of(r *result) *float64    { return &r.HeaderReply.P50 }
func p99Of(r *result) *float64    { return &r.HeaderReply.P99 }
func rateOf(r *result) *float64   { return &r.RequestsPerSecond }
func cpuOf(r *result) *float64    { return r.Picker.CPUMsPerRequest }
func idleOf(r *result) *float64   { return r.Picker.IdleCPUMsPerSecond }
func allocsOf(r *result) *float64 { return r.Picker.AllocsPerRequest }

// The work of the memory rows: streams that hold half of a body. The second ones
// hold more than the picker may.
const (
	holdBytes    = 400 << 10
	holdStreams  = 1_000
	crowdStreams = 2_000
	bodyMemory   = 256 << 20 // the picker's limit, as by default
)
