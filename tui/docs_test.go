package tui

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The page of the dashboard has a row for each key, command and column, in the words
// of the screen.
func TestDocumentedKeysAndColumns(t *testing.T) {
	b, err := os.ReadFile("../docs/top.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	var missing []string
	row := func(name, text string) {
		if line := fmt.Sprintf("| `%s` | %s |", name, text); !strings.Contains(page, line) {
			missing = append(missing, line)
		}
	}
	for _, a := range actions() {
		row(a.Help().Key, a.Help().Desc)
	}
	for _, o := range orders() {
		row(strings.TrimSpace(o.name+" "+o.arg), o.help)
	}
	for _, c := range columns {
		row(c.Name, c.Help)
	}
	if missing != nil {
		t.Errorf("docs/top.md lacks:\n%s", strings.Join(missing, "\n"))
	}
}
