package config

import (
	"strings"
	"testing"
)

func TestAssume(t *testing.T) {
	for _, tc := range []struct {
		name, file, problem string
		tokens              int
	}{
		{"default", "", "", 0},
		{"on", "assume: {enabled: true}", "", 131_072},
		{"of a size", "assume: {enabled: true, tokens: 4096}", "", 4096},
		{"off, with a size", "assume: {tokens: 4096}", "", 0},
		{"of nothing", "assume:\n  enabled: true\n  tokens: 0\n", "line 3: assume.tokens: must be between 1 and 33554432, got 0", 0},
		{"of too much", "assume: {tokens: 33554433}", "assume.tokens: must be between", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := parsed(t, tc.file)
			err := c.Validate(nil)
			if tc.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tc.problem) {
					t.Errorf("error %v, want %q in it", err, tc.problem)
				}
				return
			}
			if err != nil || c.PoolAssume() != tc.tokens {
				t.Errorf("error %v, %d tokens; want %d", err, c.PoolAssume(), tc.tokens)
			}
		})
	}
}
