package source_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/record"
	"github.com/eppctl/eppctl/internal/source"
)

// kept is what a picker has recorded, newest first.
type kept []*explain.Record

func (k kept) Walk(_ context.Context, q record.Query, visit func(*explain.Record) bool) error {
	for _, rec := range k {
		if begins := strings.HasPrefix(rec.RequestID, q.ID) || strings.HasPrefix(rec.DecisionID, q.ID); !begins {
			continue
		}
		q := q
		q.ID = "" // these decision IDs are no UUIDs
		if q.Wants(rec) && !visit(rec) {
			break
		}
	}
	return nil
}

func (k kept) Coverage() (record.Coverage, error) {
	return record.Coverage{Ring: record.Stats{Records: len(k)}}, nil
}

// pickers serves each and asks all.
func pickers(t *testing.T, all ...kept) (*source.Pickers, []*httptest.Server, *[]string) {
	t.Helper()
	var clients []*admin.Client
	var servers []*httptest.Server
	for _, k := range all {
		s := httptest.NewServer(admin.NewServer(admin.Deps{Decisions: k}))
		t.Cleanup(s.Close)
		c, err := admin.NewClient(s.URL, admin.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		clients, servers = append(clients, c), append(servers, s)
	}
	warnings := new([]string)
	return source.NewPickers(clients, source.Options{Warn: func(text string) { *warnings = append(*warnings, text) }}), servers, warnings
}

// fleet is two pickers between which a client's retries went to and fro.
func fleet(t *testing.T) (*source.Pickers, []*httptest.Server, *[]string) {
	t.Helper()
	first, third := decision(1, "twice"), decision(3, "twice")
	first.DecisionID, third.DecisionID = "d-1", "d-3"
	return pickers(t, kept{decision(6, "only-a"), third, first}, kept{decision(5, "only-b"), decision(4, "twice"), decision(2, "abc")})
}

func TestSeveralPickersAreOne(t *testing.T) {
	p, servers, warnings := fleet(t)
	var ids []string
	more, err := p.Each(t.Context(), source.Want{}, func(rec *explain.Record) error {
		ids = append(ids, rec.DecisionID)
		return nil
	})
	if diff := cmp.Diff([]string{"d-only-a", "d-only-b", "d-twice", "d-3", "d-abc", "d-1"}, ids); diff != "" || more || err != nil {
		t.Errorf("Each: more %v, %v, %s", more, err, diff)
	}
	ids = nil
	more, err = p.Each(t.Context(), source.Want{Filter: admin.Filter{Limit: 2}}, func(rec *explain.Record) error {
		ids = append(ids, rec.RequestID)
		return nil
	})
	if diff := cmp.Diff([]string{"only-a", "only-b"}, ids); diff != "" || !more || err != nil {
		t.Errorf("with a limit: more %v, %v, %s", more, err, diff)
	}
	for _, tc := range []struct {
		id     string
		nth    int
		want   string
		count  int
		server int
	}{
		{"only-b", 1, "d-only-b", 1, 1},
		{"only-a", 1, "d-only-a", 1, 0},
		{"twice", 1, "d-twice", 3, 1},
		{"twice", 2, "d-3", 3, 0},
		{"twice", 3, "d-1", 3, 0},
		{"ab", 1, "d-abc", 1, 1},
		{record.Latest, 1, "d-only-a", 1, 0},
	} {
		found, err := p.Find(t.Context(), tc.id, tc.nth)
		if err != nil || found.Record.DecisionID != tc.want || found.Count != tc.count || found.Where != servers[tc.server].URL {
			t.Errorf("Find(%s, %d) = %+v, %v; want %s of %d at %s", tc.id, tc.nth, found, err, tc.want, tc.count, servers[tc.server].URL)
		}
	}
	if len(*warnings) > 0 {
		t.Errorf("warnings %q", *warnings)
	}
	_, err = p.Find(t.Context(), "zz", 1)
	if _, ok := errors.AsType[*admin.NotFoundError](err); !ok {
		t.Errorf("Find(zz): %v", err)
	}
	_, err = p.Find(t.Context(), "twice", 4)
	if _, ok := errors.AsType[*source.MissingError](err); !ok {
		t.Errorf("Find(twice, 4): %v", err)
	}
	_, err = p.Find(t.Context(), "only", 1)
	if e, ok := errors.AsType[*record.AmbiguousError](err); !ok || len(e.Candidates) != 2 {
		t.Errorf("Find(only): %v", err)
	}
}

// A picker that does not answer is worth a warning while another does.
func TestPickerThatDoesNotAnswer(t *testing.T) {
	p, servers, warnings := fleet(t)
	servers[1].Close()
	found, err := p.Find(t.Context(), "only-a", 1)
	if err != nil || found.Record.RequestID != "only-a" || len(*warnings) != 1 || !strings.Contains((*warnings)[0], servers[1].URL) {
		t.Errorf("Find = %+v, %v, warnings %q", found, err, *warnings)
	}
	*warnings = nil
	if _, err := p.Find(t.Context(), "only-b", 1); err == nil || len(*warnings) != 1 {
		t.Errorf("Find of what the other has: %v, warnings %q", err, *warnings)
	}
	*warnings = nil
	visits := 0
	_, err = p.Each(t.Context(), source.Want{}, func(*explain.Record) error { visits++; return nil })
	if err != nil || visits != 3 || len(*warnings) != 1 {
		t.Errorf("Each: %d visits, %v, warnings %q", visits, err, *warnings)
	}
	*warnings = nil
	more, err := p.Each(t.Context(), source.Want{Filter: admin.Filter{Limit: 2}}, func(*explain.Record) error { return nil })
	if !more || err != nil || len(*warnings) != 1 {
		t.Errorf("Each up to a limit: more %v, %v, warnings %q", more, err, *warnings)
	}
	servers[0].Close()
	_, err = p.Each(t.Context(), source.Want{}, func(*explain.Record) error { return nil })
	if _, ok := errors.AsType[*admin.UnreachableError](err); !ok {
		t.Errorf("Each of none: %v", err)
	}
}

// handled are requests that a handler answers at once, without a network.
type handled struct{ http.Handler }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), r.Context().Err()
}

func TestPickerThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clients []*admin.Client
		for server, h := range []http.Handler{
			admin.NewServer(admin.Deps{Decisions: kept{decision(1, "a")}}),
			admin.NewServer(admin.Deps{Decisions: kept{decision(2, "b")}}),
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
		} {
			c, err := admin.NewClient(fmt.Sprintf("127.0.0.1:%d", 9091+server), admin.ClientOptions{Transport: handled{h}})
			if err != nil {
				t.Fatal(err)
			}
			clients = append(clients, c)
		}
		var warnings []string
		p := source.NewPickers(clients, source.Options{Warn: func(text string) { warnings = append(warnings, text) }})
		const warning = "no picker at http://127.0.0.1:9093: no answer in 10s, while another answered"
		found, err := p.Find(t.Context(), "b", 1)
		if err != nil || found.Record.RequestID != "b" || !slices.Equal(warnings, []string{warning}) {
			t.Errorf("Find: %+v, %v, warnings %q", found, err, warnings)
		}
		visits := 0
		_, err = p.Each(t.Context(), source.Want{}, func(*explain.Record) error { visits++; return nil })
		if err != nil || visits != 2 || !slices.Equal(warnings, []string{warning, warning}) {
			t.Errorf("Each: %d visits, %v, warnings %q", visits, err, warnings)
		}
	})
}

func TestAnyLimitMayBeAskedOfPickers(t *testing.T) {
	p, _, _ := fleet(t)
	for _, limit := range []int{admin.MaxLimit - 1, admin.MaxLimit, 1_000_000} {
		visits := 0
		more, err := p.Each(t.Context(), source.Want{Filter: admin.Filter{Limit: limit}}, func(*explain.Record) error { visits++; return nil })
		if err != nil || more || visits != 6 {
			t.Errorf("limit %d: %d visits, more %v, %v", limit, visits, more, err)
		}
	}
}

func TestVisitOfPickersEndsWithItsError(t *testing.T) {
	p, _, _ := fleet(t)
	stop := errors.New("enough")
	if _, err := p.Each(t.Context(), source.Want{}, func(*explain.Record) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}
