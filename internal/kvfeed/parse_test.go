package kvfeed

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

// What vLLM 0.32 answered at /kv_event_sources with --data-parallel-size 2.
const twoRanks = `{"1":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5558","replay_endpoint":"tcp://*:5658","buffer_steps":10000,"hwm":100000,"max_queue_size":100000,"topic":"kv@127.0.0.1:8000@tiny"},"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5657","buffer_steps":10000,"hwm":100000,"max_queue_size":100000,"topic":"kv@127.0.0.1:8000@tiny"}}`

func TestVLLMSources(t *testing.T) {
	for _, tc := range []struct {
		name, body string
		want       []source
	}{
		{"two ranks", twoRanks, []source{
			{0, "tcp://10.0.0.7:5557", "tcp://10.0.0.7:5657"}, {1, "tcp://10.0.0.7:5558", "tcp://10.0.0.7:5658"},
		}},
		{"no replay", `{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://[::]:5557","replay_endpoint":null}}`, []source{{0, "tcp://10.0.0.7:5557", ""}}},
		{"a port of the engine's choice", `{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://10.0.0.7:43567","replay_endpoint":"tcp://10.0.0.7:40001"}}`, []source{{0, "tcp://10.0.0.7:43567", "tcp://10.0.0.7:40001"}}},
		{"it connects to another host", `{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://10.0.0.8:5557"}}`, []source{}},
		{"off", `{"0":{"enable_kv_cache_events":false,"publisher":"zmq","endpoint":"tcp://*:5557"}}`, []source{}},
		{"a socket of the host alone", `{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"ipc:///tmp/x*"}}`, []source{}},
		{"no port", `{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:0"}}`, []source{}},
		{"a rank of no number", `{"x":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5557"}}`, []source{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := vllmSources([]byte(tc.body), "10.0.0.7")
			slices.SortFunc(got, func(a, b source) int { return cmp.Compare(a.rank, b.rank) })
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("%v, %v; want %v", got, err, tc.want)
			}
		})
	}
	many := "{" + strings.Repeat(`"a":{},`, 1)
	for i := range MaxRanks + 1 {
		many += `"` + strings.Repeat("1", i+1) + `":{},`
	}
	for _, body := range []string{"", "[]", "<html>", strings.TrimSuffix(many, ",") + "}"} {
		if got, err := vllmSources([]byte(body), "h"); err == nil {
			t.Errorf("%.20q yields %v", body, got)
		}
	}
}

func TestFurtherRanks(t *testing.T) {
	got := onPorts("tcp://[fd00::7]:65534", "", 4)
	if want := []source{{0, "tcp://[fd00::7]:65534", ""}, {1, "tcp://[fd00::7]:65535", ""}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v: there are no ports behind the last", got, want)
	}
}

func FuzzSources(f *testing.F) {
	f.Add([]byte(twoRanks))
	f.Add([]byte(`{"kv_events":{"publisher":"zmq","endpoint_port_base":5557,"dp_size":1000000000}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, read := range []func([]byte, string) ([]source, error){vllmSources, sglangSources} {
			found, err := read(body, "h")
			if len(found) > MaxRanks || err == nil && found == nil {
				t.Errorf("%d sources, %v", len(found), err)
			}
			for _, s := range found {
				if s.rank < 0 || !strings.HasPrefix(s.events, "tcp://h:") {
					t.Errorf("source %+v", s)
				}
			}
		}
	})
}
