package cli

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSanitize(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"plain", "pod-1 chat/completions {}~", "pod-1 chat/completions {}~"},
		{"empty", "", ""},
		{"other scripts", "模型 für Ελλάδα", "模型 für Ελλάδα"},
		{"colour", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"title", "\x1b]0;owned\a", `\x1b]0;owned\a`},
		{"C1 CSI", "a\u009b31mb", `a\u009b31mb`},
		{"newline and tab", "a\nhint: b\tc\r", `a\nhint: b\tc\r`},
		{"nul and del", "a\x00\x7f", `a\x00\x7f`},
		{"right-to-left override", "user\u202etxt.exe", `user\u202etxt.exe`},
		{"isolate", "\u2066x\u2069", `\u2066x\u2069`},
		{"zero width", "po\u200bd", `po\u200bd`},
		{"tag character", "x\U000e0041", `x\U000e0041`},
		{"letters that show nothing", "\u3164\u115f\ufe0f", `\u3164\u115f\ufe0f`},
		{"stray bytes", "a\xff\xc3", `a\xff\xc3`},
		{"line separator", "a\u2028b", `a\u2028b`},
		{"a few marks stay", "e\u0301\u0302", "e\u0301\u0302"},
		{"a pile of marks does not", "e" + strings.Repeat("\u0301", 6), "e" + strings.Repeat("\u0301", 4) + `\u0301` + "\u0301"},
		{"literal backslash", `\x1b[31m`, `\x1b[31m`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Sanitize(test.text); got != test.want {
				t.Errorf("Sanitize(%q) = %q, want %q", test.text, got, test.want)
			}
		})
	}
}

func FuzzSanitize(f *testing.F) {
	for _, seed := range []string{"pod-1", "\x1b[31m", "\u202e\u0301\u0301\u0301\u0301\u0301", "\xff\x9b", "–…模"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Sanitize(text)
		if !utf8.ValidString(got) {
			t.Fatalf("Sanitize(%q) = %q: not UTF-8", text, got)
		}
		for _, r := range got {
			if !strconv.IsPrint(r) {
				t.Fatalf("Sanitize(%q) = %q: %U is left", text, got, r)
			}
		}
		if again := Sanitize(got); again != got {
			t.Fatalf("Sanitize(%q) = %q, of that %q", text, got, again)
		}
	})
}
