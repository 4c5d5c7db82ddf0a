//go:build unix

package source_test

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/source"
)

// A pipe with a name is opened once, and asked twice.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if err := os.WriteFile(path, []byte(three(t)), 0o600); err != nil {
			t.Error(err)
		}
	})
	src, err := source.Open(path, source.Options{Twice: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if found, err := src.Find(t.Context(), record.Latest, 1); err != nil || found.Record.RequestID != "abc-2" {
			t.Errorf("Find = %+v, %v", found, err)
		}
	}
}
