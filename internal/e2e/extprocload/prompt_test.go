package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/request"
)

func TestBodies(t *testing.T) {
	if answer := (workload{model: `a "model"`}).answer(); !json.Valid(answer) {
		t.Errorf("the answer is no JSON: %s", answer)
	}
	for bytesWanted := 400; bytesWanted < 800; bytesWanted++ {
		w := workload{model: "a/model", bytes: bytesWanted, prompts: 2}
		got, err := w.bodies()
		if err != nil {
			t.Fatal(err)
		}
		again, _ := w.bodies()
		for i, body := range got {
			r, err := request.Parse(chatPath, body, request.Limits{})
			if err != nil || len(body) != bytesWanted || r.Model != "a/model" || len(r.Tokens) < bytesWanted/8 {
				t.Fatalf("body of %d bytes, want %d: %v\n%s", len(body), bytesWanted, err, body)
			}
			if !bytes.Equal(body, again[i]) {
				t.Fatalf("prompt %d differs from one time to the next", i)
			}
		}
		if bytes.Equal(got[0], got[1]) {
			t.Fatal("two prompts are the same")
		}
	}
}

func TestBodiesThatCannotBe(t *testing.T) {
	for _, tc := range []struct {
		name string
		w    workload
		want string
	}{
		{"no prompt", workload{model: "m", bytes: 1024}, "--prompts: must be 1 or more"},
		{"too short", workload{model: "m", bytes: 100, prompts: 1}, "--body: must be "},
		{"too much", workload{model: "m", bytes: 1 << 20, prompts: 2000}, "more than 1073741824 bytes together"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := tc.w.bodies(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("bodies: %v, want %q", err, tc.want)
			}
		})
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int{"512": 512, "1KB": 1024, "32kb": 32 << 10, "400KiB": 400 << 10, "1M": 1 << 20} {
		var s size
		if err := s.Set(text); err != nil || int(s) != want {
			t.Errorf("Set(%q) = %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "KB", "1.5MB", "9GB", "2000MB", "99999999999999999999"} {
		if err := new(size).Set(text); err == nil {
			t.Errorf("Set(%q): no error", text)
		}
	}
}
