package pool

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/score"
)

// Whatever is described of a member can change.
func TestEachChangeOfAMemberCounts(t *testing.T) {
	for f := range reflect.TypeFor[Member]().Fields() {
		if !f.IsExported() {
			continue
		}
		var m, o Member
		switch v := reflect.ValueOf(&m).Elem().FieldByIndex(f.Index); v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int:
			v.SetInt(1)
		default:
			v.Set(reflect.ValueOf(map[string]string{"a": "b"}))
		}
		if m.same(&o) || o.same(&m) || !m.same(&m) {
			t.Errorf("a change of %s is not seen", f.Name)
		}
	}
}

func TestSetTakesWhatHasChanged(t *testing.T) {
	p, _ := newPool(t, "a", "b")
	_, before := p.States(nil, &Query{})
	<-p.FeedsChanged()
	m := members("a", "b")
	m[1].NotReady, m[1].Events = true, EventsOff
	if err := p.Set(m); err != nil {
		t.Fatal(err)
	}
	states, roster := p.States(nil, &Query{})
	if states[0].Excluded != score.Eligible || states[1].Excluded != score.NotReady || roster == before {
		t.Errorf("excluded %v, %v; roster %d after %d", states[0].Excluded, states[1].Excluded, roster, before)
	}
	select {
	case <-p.FeedsChanged():
	default:
		t.Error("other events are wanted, and nobody is told")
	}
}

// BenchmarkSet changes one of 2,000 members.
func BenchmarkSet(b *testing.B) {
	p := New(Config{Clock: clock.Wall{}, Tree: prefix.New(), BlockSize: blockSize})
	var sets [2][]Member
	for i := range sets {
		for n := range 2000 {
			sets[i] = append(sets[i], Member{
				Name: fmt.Sprint("p", n), Address: fmt.Sprintf("10.0.%d.%d:8000", n/256, n%256), Labels: map[string]string{"app": "vllm", "role": "both"},
			})
		}
	}
	sets[1][7].NotReady = true
	for i := 0; b.Loop(); i++ {
		if err := p.Set(sets[i%2]); err != nil {
			b.Fatal(err)
		}
	}
}
