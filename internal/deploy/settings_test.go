package deploy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/eppctl/eppctl/internal/config"
)

// A file with all that the schema names is read, and what it is read into names no
// more, when it is written again.
func TestSettingsAreThoseOfTheConfiguration(t *testing.T) {
	want := example(settings())
	file, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Read("eppctl.yaml", file, config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	file, err = c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := yaml.Unmarshal(file, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-schema +configuration):\n%s", diff)
	}
}

// example has a value for everything in a schema, none of them empty.
func example(s schema) any {
	switch s["type"] {
	case "object":
		if of, ok := s["additionalProperties"].(schema); ok {
			return map[string]any{"cache": example(of)}
		}
		m := map[string]any{}
		for name, of := range s["properties"].(schema) {
			m[name] = example(of.(schema))
		}
		return m
	case "array":
		return []any{example(s["items"].(schema))}
	case "boolean":
		return true
	case "string":
		return "default"
	}
	return 1.0
}
