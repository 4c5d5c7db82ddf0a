package engine

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Two GPUs as a DCGM exporter shows them, each used by a pod; the fields and
// labels are those of its default set.
const gpuPageText = `# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",modelName="A100",Hostname="n",container="vllm",namespace="ns",pod="pod-a"} 90
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-2",device="nvidia1",modelName="A100",Hostname="n",container="vllm",namespace="ns",pod="pod-a"} 70
DCGM_FI_DEV_GPU_UTIL{gpu="2",UUID="GPU-3",device="nvidia2",modelName="A100",Hostname="n",container="vllm",namespace="ns",pod="pod-b"} 10
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",pod="pod-a"} 61
DCGM_FI_DEV_GPU_TEMP{gpu="1",pod="pod-a"} 84
# TYPE DCGM_FI_DEV_ECC_DBE_VOL_TOTAL counter
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="0",pod="pod-a"} 0
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="1",pod="pod-a"} 2
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{gpu="0",pod="pod-a"} 0
DCGM_FI_DEV_XID_ERRORS{gpu="1",pod="pod-a"} 48
# TYPE DCGM_FI_DEV_CLOCK_THROTTLE_REASONS gauge
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu="0",pod="pod-a"} 4
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu="1",pod="pod-a"} 36
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0",pod="pod-a"} 30000
DCGM_FI_DEV_FB_USED{gpu="1",pod="pod-a"} 20000
# TYPE DCGM_FI_DEV_FB_FREE gauge
DCGM_FI_DEV_FB_FREE{gpu="0",pod="pod-a"} NaN
`

func TestGPUsOfAPod(t *testing.T) {
	got, err := ReadGPU(strings.NewReader(gpuPageText), textPlain, "pod-a", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := GPU{
		Utilization:     val("DCGM_FI_DEV_GPU_UTIL", 0.8),
		Temperature:     val("DCGM_FI_DEV_GPU_TEMP", 84),
		DoubleBitErrors: val("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 2),
		SingleBitErrors: unknown("", "page has no DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"),
		XID:             val("DCGM_FI_DEV_XID_ERRORS", 48),
		Throttled:       val("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 36),
		MemoryUsed:      val("DCGM_FI_DEV_FB_USED", 50000),
		MemoryFree:      unknown("DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_FREE is NaN"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
}

// The pod's error is that of its worst GPU, whatever the numbers are.
func TestGravestDriverError(t *testing.T) {
	const name = "DCGM_FI_DEV_XID_ERRORS"
	for _, tt := range []struct {
		name  string
		codes []float64
		want  float64
	}{
		{"a lost GPU beside a contained error", []float64{79, 94, 0}, 79},
		{"a lost GPU beside an application's error", []float64{109, 79}, 79},
		{"an application's error beside a contained one", []float64{94, 109}, 94},
		{"an application's error alone", []float64{0, 31}, 31},
		{"two that take a reset", []float64{48, 79}, 79},
		{"a number that is no code", []float64{79, 1 << 40}, 79},
		{"none", []float64{0, 0}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var page strings.Builder
			for i, code := range tt.codes {
				fmt.Fprintf(&page, "%s{gpu=\"%d\",pod=\"pod-a\"} %v\n", name, i, code)
			}
			fmt.Fprintf(&page, "%s{gpu=\"9\",pod=\"pod-b\"} 119\n", name)
			g, err := ReadGPU(strings.NewReader(page.String()), textPlain, "pod-a", Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(val(name, tt.want), g.XID); diff != "" {
				t.Errorf("XID of %v (-want +got):\n%s", tt.codes, diff)
			}
		})
	}
}

// What a GPU does not have is not a number, and hides no other GPU's trouble.
func TestBlanks(t *testing.T) {
	const temperature, errors, free = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_FB_FREE"
	for name, blank := range map[string]string{
		"32 bits": "2147483632", "32 bits, not supported": "2147483634", "64 bits": "9223372036854775792", "a float": "140737488355328",
	} {
		t.Run(name, func(t *testing.T) {
			page := func(name, first string) string {
				return fmt.Sprintf("%s{gpu=\"0\"} %s\n%s{gpu=\"1\"} %s\n", name, first, name, blank)
			}
			read := func(text string) GPU {
				g, err := ReadGPU(strings.NewReader(text), textPlain, "pod-a", Limits{})
				if err != nil {
					t.Fatal(err)
				}
				return g
			}
			g := read(page(temperature, "91") + page(errors, "2") + page(free, "2000") + page("DCGM_FI_DEV_XID_ERRORS", "79"))
			for _, v := range []struct{ got, want Value }{
				{g.Temperature, val(temperature, 91)},
				{g.XID, val("DCGM_FI_DEV_XID_ERRORS", 79)},
				{g.DoubleBitErrors, unknown(errors, errors+" is blank")},
				{g.MemoryFree, unknown(free, free+" is blank")},
			} {
				if v.got != v.want {
					t.Errorf("%+v, want %+v", v.got, v.want)
				}
			}
			if g = read(page(temperature, blank)); g.Temperature != unknown(temperature, temperature+" is blank") {
				t.Errorf("the temperature of blanks is %+v", g.Temperature)
			}
		})
	}
}

func TestUtilization(t *testing.T) {
	const name = "DCGM_FI_DEV_GPU_UTIL"
	tests := []struct {
		name, page string
		want       Value
	}{
		{"another pod's", name + "{pod=\"pod-b\"} 10\n", unknown(name, name+` has no GPU of pod "pod-a"`)},
		{"nobody says whose", name + "{gpu=\"0\"} 10\n" + name + "{gpu=\"1\",pod=\"\"} 20\n", val(name, 0.15)},
		{"some say whose", name + "{gpu=\"0\"} 10\n" + name + "{gpu=\"1\",pod=\"pod-a\"} 20\n", val(name, 0.2)},
		{"renamed", name + "{exported_pod=\"pod-a\",pod=\"dcgm-exporter-x\"} 30\n" + name + "{exported_pod=\"pod-b\",pod=\"dcgm-exporter-x\"} 90\n", val(name, 0.3)},
		{"not known to the driver", name + " 9223372036854775792\n", unknown(name, name+" is blank")},
		{"more than all of it", name + " 101\n", unknown(name, name+" is above 100 (101)")},
		{"one GPU's is negative", name + "{gpu=\"0\"} 10\n" + name + "{gpu=\"1\"} -1\n", unknown(name, name+" is negative (-1)")},
		{"absent", "up 1\n", unknown("", "page has no "+name)},
		{"malformed", name + " many\n", unknown("", `page is malformed: expected float as value, got "many"`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := ReadGPU(strings.NewReader(tt.page), textPlain, "pod-a", Limits{})
			if diff := cmp.Diff(tt.want, g.Utilization); diff != "" {
				t.Errorf("utilization (-want +got):\n%s", diff)
			}
			if (err != nil) != (tt.name == "malformed") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestGPUsAreMeasuredAtTheirInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		a, b := f.pod("pod-a"), f.pod("pod-b")
		a.GPUURL, b.GPUURL = "http://node:9400/metrics", "http://node:9401/metrics/"
		f.set("node:9400/metrics", answer{status: 200, body: gpuPageText})
		f.set("node:9401/metrics", answer{status: 404})
		none := f.pod("pod-c")
		_, d, stop := watching(t, f, Config{}, a, b, none)
		pass(20 * time.Second)
		stop()
		good, bad := d.gpus["pod-a#1"], d.gpus["pod-b#1"]
		if n := len(good); n < 18 || n > 23 {
			t.Errorf("%d measurements in 20 s at 1 s", n)
		}
		if diff := cmp.Diff(val("DCGM_FI_DEV_GPU_UTIL", 0.8), good[0].GPU.Utilization); diff != "" || good[0].Err != nil || good[0].At.IsZero() {
			t.Errorf("error %v at %v, utilization (-want +got):\n%s", good[0].Err, good[0].At, diff)
		}
		if n := len(bad); n < 4 || n > 6 { // at 0, 2, 6, 11, 16 s
			t.Errorf("%d measurements of a page that fails in 20 s", n)
		}
		const reason = "HTTP 404 on port 9401"
		if diff := cmp.Diff(unknownGPU(reason), bad[0].GPU); diff != "" || bad[0].Err.Error() != reason {
			t.Errorf("error %v, GPUs (-want +got):\n%s", bad[0].Err, diff)
		}
		if len(d.gpus["pod-c#1"]) > 0 {
			t.Error("GPUs of a target without a page were measured")
		}
		if n := len(d.scrapes["pod-b#1"]); n < 90 {
			t.Errorf("%d scrapes of the engine whose GPUs are not known", n)
		}
	})
}
