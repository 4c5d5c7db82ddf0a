package simulate

import (
	"errors"
	"fmt"

	"github.com/eppctl/eppctl/internal/config"
)

// ParseProfile reads a profile over a built-in one: over that of its name, if there is
// one, else over llama-8b. Errors name the file.
func ParseProfile(file string, b []byte) (*Profile, error) {
	p, err := ProfileNamed("")
	if err != nil {
		return nil, err
	}
	if err := config.Strict(file, b, p); err != nil {
		return nil, err
	}
	if known, err := ProfileNamed(p.Name); err == nil && known.Name != "llama-8b" {
		p = known
		if err := config.Strict(file, b, p); err != nil {
			return nil, err
		}
	}
	if err := p.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// validate returns all that is wrong with a profile.
func (p *Profile) validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if p.Step <= 0 {
		bad("step: must be above 0, or time would stand still")
	}
	for _, v := range []struct {
		key   string
		value int
	}{{"budget", p.Budget}, {"sequences", p.Sequences}, {"maxLength", p.MaxLength}, {"blocks", p.Blocks}, {"adapterSlots", p.AdapterSlots}} {
		if v.value < 1 || v.value > 1<<24 {
			bad("%s: must be between 1 and %d, got %d", v.key, 1<<24, v.value)
		}
	}
	if p.Budget < p.Sequences {
		bad("budget: %d tokens a step cannot serve %d sequences", p.Budget, p.Sequences)
	}
	if p.Cache != byEvents && p.Cache != byReports {
		bad("cache: must be %s or %s, got %q", byEvents, byReports, p.Cache)
	}
	if p.Cache == byReports && p.Intervals.Report == 0 {
		bad("intervals.report: must be above 0 when reports tell the caches")
	}
	return errors.Join(append(problems, p.validateGPUs(), p.validateFaults())...)
}

func (p *Profile) validateGPUs() error {
	if len(p.GPUs) == 0 {
		return errors.New("gpus: at least one is needed")
	}
	seen := map[string]bool{}
	for i, g := range p.GPUs {
		switch {
		case g.Name == "" || seen[g.Name]:
			return fmt.Errorf("gpus[%d].name: %q is empty or taken", i, g.Name)
		case !(g.Price >= 0 && g.Price < 1e6):
			return fmt.Errorf("gpus[%d].price: must be dollars an hour, got %v", i, g.Price)
		case !factor(g.Step) || !factor(g.Prefill):
			return fmt.Errorf("gpus[%d]: step and prefill are factors between 0.01 and 1000", i)
		case g.Blocks < 0 || g.Blocks > 1<<24:
			return fmt.Errorf("gpus[%d].blocks: must be between 1 and %d, got %d", i, 1<<24, g.Blocks)
		}
		seen[g.Name] = true
	}
	_, err := p.parsePods(p.Pods)
	return err
}

// factor reports whether v is a factor on a cost; 0 stands for 1.
func factor(v float64) bool { return v == 0 || v >= 0.01 && v <= 1000 }

func (p *Profile) validateFaults() error {
	for i, f := range p.Faults {
		if !factor(f.Slow) {
			return fmt.Errorf("faults[%d].slow: must be a factor between 0.01 and 1000, got %v", i, f.Slow)
		}
	}
	for i, a := range p.Adapters {
		if a.Name == "" || a.Rank < 1 || a.Rank > 4096 {
			return fmt.Errorf("adapters[%d]: want a name and a rank from 1 to 4096, got %q and %d", i, a.Name, a.Rank)
		}
	}
	return nil
}
