package serve

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/clock"
	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/logkey"
	"github.com/eppctl/eppctl/internal/naming"
)

// trouble is what an operator of a pool should know, while it is so.
type trouble struct {
	pool         kube.Name
	reason, note string
	since        time.Time
}

// troubles are those of now. They are safe for concurrent use.
type troubles struct {
	mu  sync.Mutex
	now []trouble
}

// set takes what was found. What was there before goes on since then.
func (t *troubles) set(found []trouble) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range found {
		f := &found[i]
		for _, was := range t.now {
			if was.pool == f.pool && was.reason == f.reason {
				f.since = was.since
			}
		}
	}
	t.now = found
}

// list is not to be changed.
func (t *troubles) list() []trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// round is one look at all pools.
type round struct {
	events *kube.Events
	found  []trouble
}

// tell tells a trouble; "" is none.
func (r *round) tell(p kube.PoolState, reason, note string) {
	if note == "" {
		return
	}
	r.events.Say(p.Pool, reason, note, true)
	r.found = append(r.found, trouble{p.Name, reason, note, clock.Wall{}.Now()})
}

// maxNamed bounds the pods that a note names.
const maxNamed = 3

// faultNotes say what a pool and its pods say that can't be followed; "" = nothing. odd
// are annotations of pods that are for the picker alone.
func faultNotes(p kube.PoolState, odd []kube.Fault) (ports, pods string) {
	var texts []string
	for _, f := range slices.Concat(p.Faults, odd) {
		if f.Pod == "" {
			ports = f.What
			continue
		}
		texts = append(texts, "pod "+f.Pod+": "+f.What)
	}
	n := len(texts) + p.MoreFaults
	if n == 0 {
		return ports, ""
	}
	pods = strings.Join(texts[:min(len(texts), maxNamed)], "; ")
	if n > maxNamed {
		pods += fmt.Sprintf("; and %d more", n-maxNamed)
	}
	return ports, pods
}

// silence is what there is no news of; nil = all is up to date.
func (k *kubeFleet) silence() *explain.Silence {
	since, of, silent := k.watch.Silence()
	if !silent {
		return nil
	}
	s, _ := k.now()
	silence := &explain.Silence{Since: since.Round(0).UTC(), Of: of}
	for _, p := range s.Pools {
		silence.Pods += p.Pods
	}
	return silence
}

// faultKey is a fault of a pool.
type faultKey struct {
	pool kube.Name
	kube.Fault
}

// tellFaults logs what can't be followed, each once while it is said.
func (k *kubeFleet) tellFaults(s *kube.State) {
	now := map[faultKey]bool{}
	for _, p := range s.Pools {
		for _, f := range p.Faults {
			key := faultKey{p.Name, f}
			now[key] = true
			if !k.faults[key] {
				k.log.Warn("what a pool or its pod says can't be followed", slog.String(logkey.Pool, p.Name.String()), slog.String(logkey.Pod, f.Pod), slog.String(logkey.What, f.What))
			}
		}
	}
	k.faults = now // what is no longer said is forgotten
}

// maxConflicts bounds the resources that are told that they lose.
const maxConflicts = 32

// conflict is a resource of which a rule for a name of a model does not count.
type conflict struct {
	loser kube.Object
	note  string
}

// conflictsOf are those of a table, for the first resources that lose, each with its
// first rule and how many more there are.
func conflictsOf(s *kube.State, of []naming.Conflict) (list []conflict) {
	sources, more, at := kube.RuleSources(s.Models, s.Rewrites), map[string]int{}, map[string]int{}
	for _, c := range of {
		loser, known := sources[c.Source]
		if more[c.Source]++; !known || more[c.Source] > 1 || len(list) == maxConflicts {
			continue
		}
		at[c.Source] = len(list)
		list = append(list, conflict{loser, c.String()})
	}
	for source, i := range at {
		if n := more[source] - 1; n > 0 {
			list[i].note += fmt.Sprintf("; and %d more", n)
		}
	}
	return list
}

// tellConflicts tells those who own what loses.
func (k *kubeFleet) tellConflicts() {
	k.mu.Lock()
	list := k.conflicts
	k.mu.Unlock()
	for _, c := range list {
		k.events.SayOf(c.loser, reasonName, c.note, true)
	}
}
