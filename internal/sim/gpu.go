package sim

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
)

// GPUPath is where a pod has the page of a DCGM exporter. A real exporter is
// another process; this one fails only when the pod is killed.
const GPUPath = "/dcgm/metrics"

// GPU is what a pod's GPU says of itself beside how busy it is. Zero values are
// those of a healthy one, whose temperature follows its work.
type GPU struct {
	Temperature     float64 `json:"temperature"` // °C
	DoubleBitErrors uint64  `json:"doubleBitErrors"`
	SingleBitErrors uint64  `json:"singleBitErrors"`
	XID             uint64  `json:"xid"`       // code of the last driver error
	Throttled       uint64  `json:"throttled"` // bits of why the clocks are lowered: 0x40 is heat
}

// maxNumber is the largest whole number that an exposition page can hold.
const maxNumber = 1 << 53

func (g GPU) check() error {
	if math.IsNaN(g.Temperature) || g.Temperature < 0 || g.Temperature > 200 {
		return fmt.Errorf("gpu: a temperature of %v °C is not within 0 and 200", g.Temperature)
	}
	if max(g.DoubleBitErrors, g.SingleBitErrors, g.XID, g.Throttled) > maxNumber {
		return errors.New("gpu: a number is above 2^53")
	}
	return nil
}

// An A100 of 80 GB, of which vLLM takes nine tenths at its start.
const (
	gpuModel    = "NVIDIA A100-SXM4-80GB"
	gpuMemory   = 81_920 // MiB
	gpuUsed     = gpuMemory * 9 / 10
	gpuIdleHeat = 34 // °C
	gpuWorkHeat = 36 // °C more when always busy
)

// gpu writes the page.
func (s *server) gpu(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	now := s.now()
	share := s.meter.Read(now, s.engine.Stats(now).Busy)
	s.mu.Unlock()
	g := s.pod.currentFaults().gpu
	if g.Temperature == 0 {
		g.Temperature = gpuIdleHeat + gpuWorkHeat*share
	}
	labels := fmt.Sprintf(`gpu="0",UUID="GPU-sim-%d",device="nvidia0",modelName=%q,Hostname="sim",namespace="sim",pod=%s`,
		s.pod.index, gpuModel, label(s.pod.name))
	var buf []byte
	for _, f := range []struct {
		name, kind, help string
		value            float64
	}{
		{"GPU_UTIL", "gauge", "GPU utilization (in %).", math.Round(100 * share)},
		{"GPU_TEMP", "gauge", "GPU temperature (in C).", math.Round(g.Temperature)},
		{"ECC_SBE_VOL_TOTAL", "counter", "Total number of single-bit volatile ECC errors.", float64(g.SingleBitErrors)},
		{"ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors.", float64(g.DoubleBitErrors)},
		{"XID_ERRORS", "gauge", "Value of the last XID error encountered.", float64(g.XID)},
		{"CLOCK_THROTTLE_REASONS", "gauge", "Current clock throttle reasons.", float64(g.Throttled)},
		{"FB_FREE", "gauge", "Framebuffer memory free (in MiB).", gpuMemory - gpuUsed},
		{"FB_USED", "gauge", "Framebuffer memory used (in MiB).", gpuUsed},
	} {
		buf = fmt.Appendf(buf, "# HELP DCGM_FI_DEV_%[1]s %[2]s\n# TYPE DCGM_FI_DEV_%[1]s %[3]s\nDCGM_FI_DEV_%[1]s{%[4]s} ", f.name, f.help, f.kind, labels)
		buf = append(strconv.AppendFloat(buf, f.value, 'f', -1, 64), '\n')
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(buf) // a scraper that is gone asks again
}
