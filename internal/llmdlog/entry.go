package llmdlog

import (
	"bytes"
	"encoding/json"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// entry is what is read of a line, all messages together. A repeated key counts
// with its last value, as 'Request handled' has some twice.
type entry struct {
	TS          json.RawMessage `json:"ts"`
	ID          string          `json:"x-request-id"`
	Incoming    string          `json:"incomingModelName"`
	Target      string          `json:"targetModelName"`
	Plugin      string          `json:"plugin"` // name/type
	Profile     string          `json:"profile"`
	Endpoints   elements[state] `json:"endpoints"`
	Endpoint    json.RawMessage `json:"endpoint"`
	Score       json.RawMessage `json:"score"`
	Totals      elements[total] `json:"endpoints-weighted-score"`
	Result      *result         `json:"result"`
	Error       json.RawMessage `json:"error"`
	EndOfStream bool            `json:"endOfStream"`

	RequestID string `json:"requestID"` // flow control
	Outcome   string `json:"outcome"`

	BuildRef  string          `json:"build-ref"`
	Commit    string          `json:"commit-sha"`
	Flags     map[string]any  `json:"flags"`
	Config    json.RawMessage `json:"config"`
	Scheduler string          `json:"scheduler-config"`

	at time.Time
}

// valid reads the time, and refuses what is too long to be kept.
func (e *entry) valid() bool {
	for _, name := range []*string{&e.Incoming, &e.Target, &e.Plugin, &e.Profile} {
		*name = clip(*name)
	}
	var ok bool
	e.at, ok = parseTime(e.TS)
	return ok && len(e.ID) <= maxID && len(e.RequestID) <= maxID
}

// clip bounds a name.
func clip(name string) string { return clipTo(maxName, name) }

func clipTo(most int, text string) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// parseTime reads seconds with decimals, without the loss that a float would be,
// or an RFC 3339 time in quotes.
func parseTime(raw json.RawMessage) (time.Time, bool) {
	if len(raw) > 0 && raw[0] == '"' {
		var t time.Time
		return t, t.UnmarshalJSON(raw) == nil
	}
	const nanos, latest = 9, 253402300799 // the end of the year 9999
	whole, decimals, _ := strings.Cut(string(raw), ".")
	decimals = (decimals + "000000000")[:nanos]
	seconds, err := strconv.ParseInt(whole, 10, 64)
	ns, err2 := strconv.ParseInt(decimals, 10, 64)
	if err != nil || err2 != nil || seconds < 0 || seconds > latest || ns < 0 {
		return time.Time{}, false
	}
	return time.Unix(seconds, ns).UTC(), true
}

// elements is a list of bounded length.
type elements[T any] []T

// UnmarshalJSON reads the list, and gives up where it gets too long.
func (l *elements[T]) UnmarshalJSON(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return err // null, or nothing that could be used
	}
	*l = nil
	for dec.More() {
		if len(*l) == maxPods {
			return errTooMany
		}
		var one T
		if err := dec.Decode(&one); err != nil {
			return err
		}
		*l = append(*l, one)
	}
	return nil
}

// name is a Kubernetes name.
type name struct{ Namespace, Name string }

// address is what identifies an endpoint: NamespacedName and PodName up to v0.9,
// ID and Name since.
type address struct {
	ID, NamespacedName name
	Name, PodName      string
	Address, Port      string
}

// key is how lines with scores speak of the endpoint.
func (a *address) key() string {
	id := a.ID
	if id == (name{}) {
		id = a.NamespacedName
	}
	return id.Namespace + "/" + id.Name
}

// pod is the endpoint's name for people; several ranks of one pod share it.
func (a *address) pod() string {
	for _, name := range []string{a.Name, a.PodName, a.ID.Name, a.NamespacedName.Name} {
		if name != "" {
			return clip(name)
		}
	}
	return ""
}

func (a *address) endpoint() string { return clip(net.JoinHostPort(a.Address, a.Port)) }

// state is an endpoint as filters and scorers saw it.
type state struct {
	address
	ActiveModels, WaitingModels map[string]json.RawMessage
	MaxActiveModels             *int
	RunningRequestsSize         *float64
	WaitingQueueSize            *float64
	KVCacheUsagePercent         *float64 // a fraction, in spite of its name
	UpdateTime                  time.Time
}

// total is an endpoint with its weighted sum.
type total struct {
	Endpoint address
	Score    *float64
}

// result is what the picker plugin gave.
type result struct{ TargetEndpoints elements[total] }

// score is the value of a 'Calculated score' line; NaN when it is no number.
func (e *entry) score() float64 {
	v, err := strconv.ParseFloat(string(e.Score), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// text is a string value; "" for any other.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
