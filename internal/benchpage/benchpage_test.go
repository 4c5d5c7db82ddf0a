package benchpage

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"one", []float64{3}, 3},
		{"an odd number", []float64{1, 2, 9}, 2},
		{"an even number", []float64{1, 2, 4, 9}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Median(tt.values); got != tt.want {
				t.Errorf("Median(%v) = %v, want %v", tt.values, got, tt.want)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1.3: "1.3", 0.0304: "0.0304", 123456: "123456", 51.239: "51.2", 2: "2", -0.5: "-0.5"} {
		if got := Number(v); got != want {
			t.Errorf("Number(%g) = %q, want %q", v, got, want)
		}
	}
}

func TestUpdate(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Update(page, "x", "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if want := "a\n<!-- x: begin -->\nnew\n<!-- x: end -->\nb\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	want := "update " + page + ": it needs the lines \"<!-- y: begin -->\" and \"<!-- y: end -->\""
	if err := Update(page, "y", "new\n"); err == nil || err.Error() != want {
		t.Errorf("a page without markers: %v, want %s", err, want)
	}
	if err := Update(page+".gone", "x", ""); err == nil {
		t.Error("a page that is not there: no error")
	}
}
