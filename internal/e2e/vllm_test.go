package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/eppctl/eppctl/internal/admin"
)

const (
	// vllmPatience is for the start of an engine, which imports half of PyTorch.
	vllmPatience = 5 * time.Minute
	vllmModel    = "tiny"
	// vllmRunning is how many requests the engine computes at once.
	vllmRunning = 8
)

// A vllm is a real engine on the processor, with a model whose weights are made up.
type vllm struct {
	*process
	address string
}

// vllmPython is a Python that has vLLM. It is a part of its own, which .ci/run does
// not install: without it the test is skipped, also in CI.
func vllmPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv("EPPCTL_E2E_VLLM")
	if python == "" || testing.Short() {
		t.Skip("EPPCTL_E2E_VLLM is not set: run '.ci/e2e vllm', which installs what this test needs")
	}
	return python
}

// startVLLM runs an engine until the test ends, with a KV cache of so many blocks.
// Its events are where it likes: the picker has to find them.
func startVLLM(t *testing.T, python string, blockSize, blocks int) *vllm {
	t.Helper()
	dir := filepath.Join(t.TempDir(), vllmModel)
	if out, err := exec.CommandContext(t.Context(), python, "testdata/vllm/model.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("make a model: %v\n%s", err, out)
	}
	v := &vllm{address: freeAddress(t)}
	_, port, _ := net.SplitHostPort(v.address)
	args := []string{
		"VLLM_HOST_IP=127.0.0.1", "VLLM_CPU_KVCACHE_SPACE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "HF_HUB_OFFLINE=1",
		"PYTHONDONTWRITEBYTECODE=", // the next start is faster
	}
	if blockSize%32 != 0 {
		patch, err := filepath.Abs("testdata/vllm/blocks16")
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "PYTHONPATH="+patch)
	}
	const events = `{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0"}`
	args = append(args, python, "-m", "vllm.entrypoints.cli.main", "serve", dir, "--served-model-name", vllmModel,
		"--host", "127.0.0.1", "--port", port, "--load-format", "dummy", "--enforce-eager", "--max-model-len", "2048",
		"--max-num-seqs", fmt.Sprint(vllmRunning), "--block-size", fmt.Sprint(blockSize), "--num-gpu-blocks-override", fmt.Sprint(blocks),
		"--enable-prefix-caching", "--enable-prompt-tokens-details", "--disable-uvicorn-access-log", "--kv-events-config", events)
	v.process = launch(t, "vLLM", nil, "env", args...)
	began := time.Now()
	for !v.ready() {
		if err := v.alive(); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) > vllmPatience {
			t.Fatalf("vLLM was not ready in %v", vllmPatience)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("vLLM was ready after %v", time.Since(began).Round(time.Second))
	return v
}

func (v *vllm) ready() bool {
	res, err := http.Get("http://" + v.address + "/health")
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// freeAddress is one that nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// vllmConfig gives a busy machine time for tokens; all else is as it comes.
const vllmConfig = "tokens: {timeoutMs: 5000}\n"

// startPickerFor runs a picker in front of the engine, until it is connected to its
// events.
func startPickerFor(t *testing.T, v *vllm, flags ...string) *picker {
	t.Helper()
	f := &fleet{pods: []*pod{{name: vllmModel, address: v.address}}}
	p := startPicker(t, f, vllmConfig, "127.0.0.1:0", flags...)
	until(t, "the picker is connected to the engine's events", func() bool {
		pod := p.pod()
		return len(pod.Streams) == 1 && pod.Streams[0].Connected && pod.Health.Value != nil
	})
	return p
}

// pod is what the picker knows of its only pod.
func (p *picker) pod() admin.Pod {
	p.t.Helper()
	list, err := p.admin.Pods(context.Background())
	if err != nil || len(list.Items) != 1 {
		p.t.Fatalf("pods: %v, %v", list, err)
	}
	return list.Items[0]
}

// With blocks of 16 the engine's are the picker's own; with its usual 32 there are
// two of the picker's in each, and few enough that it has to give some up.
func TestRealEngine(t *testing.T) {
	python := vllmPython(t)
	for _, tt := range []struct{ blockSize, blocks int }{{16, 2000}, {32, 70}} {
		t.Run(fmt.Sprintf("%d blocks of %d", tt.blocks, tt.blockSize), func(t *testing.T) {
			v := startVLLM(t, python, tt.blockSize, tt.blocks)
			p := startPickerFor(t, v)
			s := &vllmSession{t: t, vllm: v, picker: p, blockSize: tt.blockSize, client: newClients(t).h1}
			s.send()
			s.compare()
			s.shown(tt.blocks)
			s.parity()
			s.explained()
			s.queued()
			s.late()
			p.settled()
		})
	}
}

// shown checks what the picker says of a real engine's pages and events.
func (s *vllmSession) shown(blocks int) {
	s.t.Helper()
	pod := s.picker.pod()
	if e := pod.Engine; e.Kind != "vllm" || e.BlockSizeTokens == nil || *e.BlockSizeTokens != s.blockSize ||
		e.CapacityBlocks == nil || *e.CapacityBlocks != blocks {
		s.t.Errorf("engine %+v, want vllm with %d blocks of %d", e, blocks, s.blockSize)
	}
	if pod.Health.Value == nil || *pod.Health.Value != 1 || pod.Health.State != "known" {
		s.t.Errorf("health %+v, want 1", pod.Health)
	}
	if pod.Cache.Source != "events" || pod.Cache.Blocks == nil || *pod.Cache.Blocks == 0 {
		s.t.Errorf("cache %+v", pod.Cache)
	}
	stream := &pod.Streams[0]
	c := &stream.Counts
	if stream.Degraded != "" || stream.Replay == "" || c.Gaps+c.DecodeErrors+c.Unreadable+c.Skipped+c.UnknownParents+c.UnknownRemovals+c.Orphans+c.Dropped+c.Strangers > 0 {
		s.t.Errorf("stream %+v", stream)
	}
	if pod.Scrapes.Failed > 0 || pod.Scrapes.Total == 0 {
		s.t.Errorf("scrapes %+v", pod.Scrapes)
	}
	for _, name := range []string{"epp_stale_cache_routing_total", "epp_tokens_mismatches_total"} {
		if n := s.picker.metric(name); n != 0 {
			s.t.Errorf("%s is %v", name, n)
		}
	}
	s.t.Logf("%d batches of events, %d stored, %d removed, %d blocks held", c.Batches, c.Stored, c.Removed, stream.Blocks)
}
