package explain_test

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/eppctl/eppctl/explain"
)

func ExampleExplain() {
	report := explain.Explain(clearWin().record(), explain.Options{})
	fmt.Println(report.Verdict)
	change := report.Flips[0].Changes[0]
	fmt.Printf("%s would have won with %.0f blocks, it had %.0f\n", report.Flips[0].Pod, *change.To, *change.From)
	fmt.Println("replay identical:", report.Replay.Identical)
	// Output:
	// request 91c2f0a7… (llama-3.1-8b, 3128 tokens) went to sim-2: score 0.84, ahead of sim-0 by 0.27, decided by cacheMatch (0.96 against 0.41)
	// sim-0 would have won with 168 blocks, it had 80
	// replay identical: true
}

func ExampleReport_Text() {
	record := noPods().record()
	_ = explain.Explain(record, explain.Options{}).Text(os.Stdout, explain.TextOptions{Width: 100, ASCII: true})
	// Output:
	// request 91c2f0a7... (llama-3.1-8b, 3128 tokens) was refused with 503: the pool has no pods
	//
	// request: 91c2f0a7-3a4e-4f2b-9f67-0c2a51c0ee01
	// decision: 5b0c3f60-9a35-4f0e-8f57-1d2f6d1c9e11
	// time: 2026-11-30T14:23:07.120Z
	// model: llama-3.1-8b
	// prompt: 3128 tokens (approximate), 195 full blocks of 16; /v1/chat/completions, streamed
	//
	// no pod could win
	//
	// weights: cache 0.60, load 0.20, queue 0.10, health 0.05, adapter 0.05; maxQueue 20, maxUtilization
	//   1, saturation relax, generation 0
	// dominance: a lead of more than 63.4 points in cache match always wins between eligible pods
	//
	// outcome: status 503
	// tokens: prompt not reported, output not reported (the engine's counts)
	// cached tokens: no prediction, not reported by the engine
	// picker: 0.061 ms (parse 0.021, tokens 0.030, lookup 0.002, scorers 0.000, decide 0.001)
	// replay: identical
}

func ExampleReplay() {
	record := clearWin().record()
	v, _, _ := explain.Replay(record)
	fmt.Println(v.Identical)
	record.Candidates[0].Pending++
	v, _, _ = explain.Replay(record)
	fmt.Println(v.Identical, v.Difference)
	// Output:
	// true
	// false sim-0: input "pending" is not what was recorded (checksum)
}

func ExampleSummarize() {
	row := explain.Summarize(clearWin().record())
	fmt.Printf("%s %s %.2f %+.2f %s over %s\n", row.Time.Format("15:04:05"), row.Picked, *row.Score, *row.Margin, row.DecidedBy, row.Over)
	document, _ := json.Marshal(row.Flags)
	fmt.Println(string(document))
	// Output:
	// 14:23:07 sim-2 0.84 +0.27 cacheMatch over sim-0
	// []
}
