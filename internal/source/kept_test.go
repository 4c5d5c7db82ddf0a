package source_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eppctl/eppctl/explain"
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

// slow is a source that finds one decision, and never comes to an end.
type slow struct{ first *explain.Record }

func (slow) Find(context.Context, string, int) (source.Found, error) {
	return source.Found{}, errors.ErrUnsupported
}

func (s slow) Each(ctx context.Context, _ source.Want, visit func(*explain.Record) error) (bool, error) {
	if err := visit(s.first); err != nil {
		return false, err
	}
	<-ctx.Done()
	return false, context.Cause(ctx)
}

// Others like a request are looked for as long as the look-up took, and it shows when
// that was too short.
func TestAlikeIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, earlier := decision(2, "b"), decision(1, "a")
		for _, rec := range []*explain.Record{of, earlier} {
			rec.Request = explain.Request{Blocks: 1, BlockSize: 16, Chain: []string{"x"}}
		}
		began := time.Now()
		list, cut, err := source.Alike(t.Context(), slow{earlier}, of, 3*time.Second, false)
		if took := time.Since(began); len(list) != 1 || !cut || err != nil || took != 6*time.Second {
			t.Errorf("%d decisions, cut %v, %v, after %v", len(list), cut, err, took)
		}
	})
}
