package engine

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/eppctl/eppctl/internal/health"
)

// GPU is what the page of NVIDIA's DCGM exporter says of the GPUs of one pod.
// No value is clamped.
type GPU struct {
	// Utilization is the mean of the GPUs, 0..1.
	Utilization Value
	// Temperature is the hottest one's, in °C.
	Temperature Value
	// DoubleBitErrors and SingleBitErrors are ECC errors since the driver was
	// loaded, of all GPUs.
	DoubleBitErrors, SingleBitErrors Value
	// XID is the gravest code of a last driver error; 0 for none.
	XID Value
	// Throttled holds the bits of why clocks are lowered, of all GPUs.
	Throttled Value
	// MemoryUsed and MemoryFree are MiB of all GPUs.
	MemoryUsed, MemoryFree Value
}

// Names of DCGM's fields, in order of preference: the present one first.
var (
	gpuUtilization = []string{"DCGM_FI_DEV_GPU_UTIL"}
	gpuTemperature = []string{"DCGM_FI_DEV_GPU_TEMP"}
	gpuDoubleBit   = []string{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"}
	gpuSingleBit   = []string{"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"}
	gpuXID         = []string{"DCGM_FI_DEV_XID_ERRORS"}
	gpuThrottled   = []string{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"}
	gpuMemoryUsed  = []string{"DCGM_FI_DEV_FB_USED"}
	gpuMemoryFree  = []string{"DCGM_FI_DEV_FB_FREE"}
)

var gpuNames = []string{
	gpuUtilization[0], gpuTemperature[0], gpuDoubleBit[0], gpuSingleBit[0], gpuXID[0],
	gpuThrottled[0], gpuThrottled[1], gpuMemoryUsed[0], gpuMemoryFree[0],
}

// ReadGPU reads a page of a DCGM exporter. When the page says which pods use its
// GPUs, only those of the named pod count; else all do.
//
// On an error all values are unknown, with the error as reason.
func ReadGPU(body io.Reader, contentType, pod string, limits Limits) (GPU, error) {
	g, err := readGPU(body, contentType, pod, limits)
	if err != nil {
		return unknownGPU(err.Error()), err
	}
	return g, nil
}

func readGPU(body io.Reader, contentType, pod string, limits Limits) (GPU, error) {
	format, err := formatOf(contentType)
	if err != nil {
		return GPU{}, err
	}
	s := scratchPool.Get().(*scratch)
	defer s.release()
	var f families
	if format == formatProto {
		f, err = s.decodeProto(body, limits)
	} else if err = s.scan(body, limits); err == nil {
		f, err = s.decodeLines(s.kept)
	}
	if err != nil {
		return GPU{}, err
	}
	return gpuPage{f, pod}.read(), nil
}

// gpuPage is a page as one pod sees it.
type gpuPage struct {
	families families
	pod      string
}

func (p gpuPage) read() GPU {
	return GPU{
		Utilization:     p.utilization(),
		Temperature:     p.worst(gpuTemperature, math.Max),
		DoubleBitErrors: p.fold(gpuDoubleBit, sum),
		SingleBitErrors: p.fold(gpuSingleBit, sum),
		XID:             p.worst(gpuXID, health.WorseXID),
		Throttled:       p.fold(gpuThrottled, bitsOfBoth),
		MemoryUsed:      p.fold(gpuMemoryUsed, sum),
		MemoryFree:      p.fold(gpuMemoryFree, sum),
	}
}

// utilization is in percent on the page. What is above 100 is a driver's way of
// saying that it does not know.
func (p gpuPage) utilization() Value {
	const percent = 100
	v := p.fold(gpuUtilization, math.Max)
	if !v.Known {
		return v
	}
	if v.V > percent {
		return unknown(v.Series, fmt.Sprintf("%s is above 100 (%v)", v.Series, v.V))
	}
	_, values, _ := p.values(gpuUtilization)
	v.V = p.fold(gpuUtilization, sum).V / percent / float64(len(values))
	return v
}

// bitsOfBoth joins two sets of bits, as far as a number can be one.
func bitsOfBoth(a, b float64) float64 {
	const most = 1 << 53
	if a > most || b > most {
		return math.Max(a, b)
	}
	return float64(uint64(a) | uint64(b))
}

// fold folds a field of the pod's GPUs.
func (p gpuPage) fold(names []string, fold func(a, b float64) float64) Value {
	name, values, reason := p.values(names)
	if reason != "" {
		return unknown(name, reason)
	}
	v := gpuValue(name, values[0])
	for _, next := range values[1:] {
		v = combine(v, gpuValue(name, next), fold)
	}
	return v
}

// worst is as fold, of those GPUs of which the field is known, if any is: another
// one does not hide what is wrong with them.
func (p gpuPage) worst(names []string, worse func(a, b float64) float64) Value {
	v := p.fold(names, worse)
	if v.Known {
		return v
	}
	name, values, _ := p.values(names)
	for _, next := range values {
		switch next := gpuValue(name, next); {
		case !next.Known:
		case v.Known:
			v = combine(v, next, worse)
		default:
			v = next
		}
	}
	return v
}

// leastBlank is the least of the numbers by which DCGM says that a GPU does not
// have a field, or has nothing to say (DCGM_INT32_BLANK in dcgm_structs.h; those of
// the other types are greater). No field that is read gets as far.
const leastBlank = 0x7ffffff0

func gpuValue(name string, v float64) Value {
	if v >= leastBlank && !math.IsInf(v, 0) {
		return unknown(name, name+" is blank")
	}
	return known(name, v)
}

// values are a field of the pod's GPUs, under the first name that the page has;
// none with a reason.
func (p gpuPage) values(names []string) (name string, values []float64, reason string) {
	for _, name := range names {
		samples := p.families.of(name)
		if len(samples) == 0 {
			continue
		}
		all := !slices.ContainsFunc(samples, func(s sample) bool { return len(podOf(&s)) > 0 })
		for i := range samples {
			if all || string(podOf(&samples[i])) == p.pod {
				values = append(values, samples[i].value)
			}
		}
		if values == nil {
			reason = fmt.Sprintf("%s has no GPU of pod %.80q", name, p.pod)
		}
		return name, values, reason
	}
	return "", nil, "page has no " + strings.Join(names, " or ")
}

// podOf is the pod that uses a GPU. Prometheus renames the label when it has one
// of that name itself.
func podOf(s *sample) []byte {
	if pod := s.label("exported_pod"); len(pod) > 0 {
		return pod
	}
	return s.label("pod")
}

func unknownGPU(reason string) GPU {
	v := unknown("", reason)
	return GPU{
		Utilization: v, Temperature: v, DoubleBitErrors: v, SingleBitErrors: v,
		XID: v, Throttled: v, MemoryUsed: v, MemoryFree: v,
	}
}
