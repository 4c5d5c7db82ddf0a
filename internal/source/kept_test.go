package source_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/source"
)

// What can be read only once, as standard input or a pipe, can be asked again, and
// nothing but its decisions is kept.
func TestReadOnceAskedTwice(t *testing.T) {
	log := "a prompt\n" + pickerLog(t, "DEBUG", decision(1, "abc-1"), decision(3, "abc-2"), decision(2, "xyz"))
	for name, content := range map[string]string{"JSON Lines": three(t), "packed": zipped(t, three(t)), "a log": log} {
		t.Run(name, func(t *testing.T) {
			src, err := source.Open("-", source.Options{Stdin: strings.NewReader(content), Twice: true})
			if err != nil {
				t.Fatal(err)
			}
			if found, err := src.Find(t.Context(), "xyz", 1); err != nil || found.Record.RequestID != "xyz" {
				t.Fatalf("Find = %+v, %v", found, err)
			}
			for range 2 {
				ids, _, err := (reader{src, nil}).ids(t, admin.Filter{})
				if want := []string{"abc-2", "xyz", "abc-1"}; !slices.Equal(ids, want) || err != nil {
					t.Errorf("Each = %v, %v; want %v", ids, err, want)
				}
			}
		})
	}
}

// A line that never ends does not keep the reading from being interrupted.
func TestEndlessLineIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	reads := 0
	src, err := source.Open("-", source.Options{Stdin: readerFunc(func(p []byte) (int, error) {
		if reads++; reads == 1000 {
			cancel(interrupted)
		}
		return len(p), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Find(ctx, record.Latest, 1); !errors.Is(err, interrupted) || reads != 1000 {
		t.Errorf("%v after %d reads", err, reads)
	}
}
