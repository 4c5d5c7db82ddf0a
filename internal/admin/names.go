package admin

import (
	"net/http"

	"github.com/eppctl/eppctl/internal/naming"
)

// NameList is the answer of GET /v1/names: what names that clients use stand for, by
// rules. Names without a rule stand for themselves.
type NameList struct {
	Document
	Items     []Name         `json:"items"` // the one for all names without a rule of their own first
	Conflicts []NameConflict `json:"conflicts"`
}

// Name is what a rule says of a name.
type Name struct {
	Model       string       `json:"model"` // "" = all names that have no rule of their own
	By          string       `json:"by"`
	Targets     []NameTarget `json:"targets"` // none = the name itself
	Pools       []string     `json:"pools"`   // null = every pool
	Criticality string       `json:"criticality,omitempty"`
}

// NameTarget is a model or an adapter, and its share of the requests.
type NameTarget struct {
	Model  string `json:"model"`
	Weight int    `json:"weight"` // of the sum over all targets
}

// NameConflict is a rule that does not count.
type NameConflict struct {
	Model  string `json:"model"` // "" = all names
	Pool   string `json:"pool,omitempty"`
	Rule   string `json:"rule"`
	Winner string `json:"winner,omitempty"` // that counts in its place
	Reason string `json:"reason"`
}

func (s *server) names(w http.ResponseWriter, r *http.Request) error {
	var table *naming.Table
	if s.Names != nil {
		table = s.Names()
	}
	list := NameList{Document: document("NameList"), Items: []Name{}, Conflicts: []NameConflict{}}
	for _, e := range table.Entries() {
		n := Name{Model: e.Model, By: e.By, Targets: []NameTarget{}, Pools: e.Pools, Criticality: e.Criticality}
		for _, t := range e.Targets {
			n.Targets = append(n.Targets, NameTarget(t))
		}
		list.Items = append(list.Items, n)
	}
	for _, c := range table.Conflicts() {
		list.Conflicts = append(list.Conflicts, NameConflict{Model: c.Model, Pool: c.Pool, Rule: c.Loser, Winner: c.Winner, Reason: c.Why})
	}
	return answer(w, r, list)
}
