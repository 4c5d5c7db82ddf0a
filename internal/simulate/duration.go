package simulate

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// A Duration is a time in a profile, as "200ms".
type Duration time.Duration

// UnmarshalYAML implements [yaml.Unmarshaler].
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("line %d: %q is no time; examples: 200ms, 5s, 10m", n.Line, n.Value)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalYAML implements [yaml.Marshaler].
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }
