package nearest_test

import (
	"strings"
	"testing"

	"github.com/eppctl/eppctl/score/nearest"
)

func TestName(t *testing.T) {
	names := []string{"maxQueue", "maxUtilization", "weights", "saturation"}
	for word, want := range map[string]string{
		"maxqueue": "maxQueue", "maxUtil": "maxUtilization", "wheights": "weights", "saturate": "saturation",
		"":                          "weights", // the shortest
		strings.Repeat("s", 10_000): "saturation",
	} {
		if got := nearest.Name(word, names); got != want {
			t.Errorf("Name(%.20q) = %q, want %q", word, got, want)
		}
	}
	if got := nearest.Name("x", nil); got != "" {
		t.Errorf("Name without names = %q", got)
	}
}
