package simulate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxPods bounds a fleet.
const maxPods = 4096

// podCount is a number of pods of a type.
type podCount struct {
	gpu *GPU
	n   int
}

// parsePods reads "8" or "a100=8,a10g=4".
func (p *Profile) parsePods(text string) (counts []podCount, err error) {
	total := 0
	for part := range strings.SplitSeq(text, ",") {
		name, number, named := strings.Cut(part, "=")
		if !named {
			name, number = p.GPUs[0].Name, part
		}
		i := slices.IndexFunc(p.GPUs, func(g GPU) bool { return g.Name == name })
		n, err := strconv.Atoi(strings.TrimSpace(number))
		switch {
		case i < 0:
			return nil, fmt.Errorf("pods %q: no GPU %q in profile %s; there are %s", text, name, p.Name, p.gpuNames())
		case err != nil || n < 1:
			return nil, fmt.Errorf("pods %q: want a number, or numbers by GPU as in %s=8", text, p.GPUs[0].Name)
		case slices.ContainsFunc(counts, func(c podCount) bool { return c.gpu.Name == name }):
			return nil, fmt.Errorf("pods %q: %s stands there twice: add its numbers up", text, name)
		}
		if total += n; total > maxPods {
			return nil, fmt.Errorf("pods %q: at most %d can be simulated", text, maxPods)
		}
		counts = append(counts, podCount{&p.GPUs[i], n})
	}
	return counts, nil
}

func (p *Profile) gpuNames() string {
	var names []string
	for _, g := range p.GPUs {
		names = append(names, g.Name)
	}
	return strings.Join(names, ", ")
}
