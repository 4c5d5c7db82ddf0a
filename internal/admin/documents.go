package admin

import (
	"time"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/buildinfo"
	"github.com/eppctl/eppctl/internal/prefix"
	"github.com/eppctl/eppctl/internal/record"
)

// APIVersion is the version of the documents of this package.
const APIVersion = explain.APIVersion

// apiHeader is in every answer of the API, so that a client can tell it from
// whatever else may listen on a port. Its value is [APIVersion].
const apiHeader = "Eppctl-Api"

// Document begins every document.
type Document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func document(kind string) Document { return Document{APIVersion, kind} }

// DecisionList is the answer of GET /v1/decisions.
type DecisionList struct {
	Document
	Coverage Coverage          `json:"coverage"`
	Items    []*explain.Record `json:"items"` // newest first
	More     bool              `json:"more"`  // there were more than the limit
}

// DecisionLookup is the answer of GET /v1/decisions/{id}.
type DecisionLookup struct {
	Document
	// Count is how many decisions there are for the request ID. Nth is which of
	// them this is: 1 is the newest.
	Count int             `json:"count"`
	Nth   int             `json:"nth"`
	Item  *explain.Record `json:"item"`
}

// Coverage says how far back decisions are known. Times are null when there is
// no decision.
type Coverage struct {
	Oldest *time.Time     `json:"oldest"` // in ring and files
	Ring   RingCoverage   `json:"ring"`
	Files  *FilesCoverage `json:"files"` // null when no files are written
}

// RingCoverage is what the ring in memory holds.
type RingCoverage struct {
	Decisions     int        `json:"decisions"`
	Pending       int        `json:"pending"` // of these without an outcome yet
	Oldest        *time.Time `json:"oldest"`
	Newest        *time.Time `json:"newest"`
	SpanSeconds   float64    `json:"spanSeconds"`
	Bytes         int64      `json:"bytes"`
	CapacityBytes int64      `json:"capacityBytes"`
	Dropped       uint64     `json:"dropped"` // left to make room
	Skipped       uint64     `json:"skipped"` // never recorded
}

// FilesCoverage is what the files of --record hold.
type FilesCoverage struct {
	Files  int        `json:"files"`
	Bytes  int64      `json:"bytes"`
	Oldest *time.Time `json:"oldest"`
	// Unsaved decisions left the ring before they stood in a file.
	Unsaved uint64 `json:"unsaved"`
}

func coverageOf(c *record.Coverage) Coverage {
	out := Coverage{
		Oldest: timeOrNull(c.Oldest()),
		Ring: RingCoverage{
			Decisions: c.Ring.Records, Pending: c.Ring.Pending,
			Oldest: timeOrNull(c.Ring.Oldest), Newest: timeOrNull(c.Ring.Newest), SpanSeconds: c.Ring.Span().Seconds(),
			Bytes: c.Ring.Bytes, CapacityBytes: c.Ring.Capacity, Dropped: c.Ring.Evicted, Skipped: c.Ring.Skipped,
		},
	}
	if c.Recording {
		out.Files = &FilesCoverage{
			Files: c.Files.Files, Bytes: c.Files.Bytes, Oldest: timeOrNull(c.Files.Oldest), Unsaved: c.Ring.Unsaved,
		}
	}
	return out
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Tree is the answer of GET /v1/tree.
type Tree struct {
	Document
	Blocks        int       `json:"blocks"` // distinct ones that at least one pod holds
	Runs          int       `json:"runs"`   // stretches that they are stored in
	Pods          int       `json:"pods"`
	BytesEstimate int64     `json:"bytesEstimate"`
	StaleMessages int64     `json:"staleMessages"` // dropped: the pod has been replaced
	DroppedBlocks int64     `json:"droppedBlocks"` // there was no place for them
	PerPod        []PodTree `json:"perPod"`
}

// PodTree is a pod's part of the tree.
type PodTree struct {
	Pod      string `json:"pod"`
	Endpoint string `json:"endpoint"`
	Blocks   int    `json:"blocks"`
}

func treeOf(s prefix.Stats) Tree {
	return Tree{
		Document: document("Tree"),
		Blocks:   s.Blocks, Runs: s.Runs, Pods: s.Pods, BytesEstimate: s.BytesEstimate,
		StaleMessages: s.StaleMessages, DroppedBlocks: s.DroppedBlocks, PerPod: []PodTree{},
	}
}

// Ledger is the answer of GET /v1/ledger: requests that have not ended. When
// nothing runs, all of it is 0.
type Ledger struct {
	Document
	Open     int         `json:"open"`     // picks that have not ended
	InFlight int         `json:"inFlight"` // the same by the pods' books
	Pending  int         `json:"pending"`  // of these not yet counted by their pod, nor answered
	Pods     []PodLedger `json:"pods"`
}

// PodLedger is a pod's part of the ledger.
type PodLedger struct {
	Pod      string `json:"pod"`
	Endpoint string `json:"endpoint"`
	InFlight int    `json:"inFlight"`
	Pending  int    `json:"pending"`
	// Engine is how many requests the engine last said it has, running and waiting;
	// null when not known. Where it stays below what all pickers have in flight, one
	// of them has lost the end of requests.
	Engine   *float64 `json:"engine"`
	Departed bool     `json:"departed,omitempty"` // it left the pool with requests running
}

// Version is the answer of GET /v1/version.
type Version struct {
	Document
	buildinfo.Info
}

// Config is the answer of GET /v1/config. The client leaves its inside as it is.
type Config struct {
	Document
	Config any `json:"config"`
}

// Weights is the answer of GET and PUT /v1/config/weights.
type Weights struct {
	Document
	explain.Weights
}

// LogLevel is the answer of GET and PUT /v1/log-level, and the body of the latter.
type LogLevel struct {
	Document
	Level string `json:"level"`
}

// Ref names a decision.
type Ref struct {
	RequestID  string    `json:"requestID"`
	DecisionID string    `json:"decisionID"`
	Time       time.Time `json:"time"`
	Model      string    `json:"model,omitempty"`
	Pod        string    `json:"pod,omitempty"` // that was picked
}

func refOf(r *explain.Record) Ref {
	return Ref{RequestID: r.RequestID, DecisionID: r.DecisionID, Time: r.Time, Model: r.Request.Model, Pod: r.Result.Pod}
}

// Failure is the document of every error.
type Failure struct {
	Document
	Error      FailureText `json:"error"`
	Coverage   *Coverage   `json:"coverage,omitempty"`   // with not-found
	Candidates []Ref       `json:"candidates,omitempty"` // with ambiguous, newest first
	Generation *uint64     `json:"generation,omitempty"` // with generation-changed
}

// FailureText says what is wrong and what to do.
type FailureText struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// The codes of failures.
const (
	CodeBadRequest        = "bad-request"
	CodeNotFound          = "not-found"
	CodeAmbiguous         = "ambiguous"
	CodeNoSuchPath        = "no-such-path"
	CodeNoSuchPod         = "no-such-pod"
	CodeMethod            = "method-not-allowed"
	CodeHost              = "host-not-allowed"
	CodeOrigin            = "origin-not-allowed"
	CodeUnauthorized      = "unauthorized"
	CodeForbidden         = "forbidden"
	CodeAccessUnknown     = "access-unknown"
	CodeReadOnly          = "read-only"
	CodePrecondition      = "precondition-required"
	CodeGenerationChanged = "generation-changed"
	CodeInvalidWeights    = "invalid-weights"
	CodeTooLarge          = "too-large"
	CodeTooManyReaders    = "too-many-readers"
	CodeNotReady          = "not-ready"
	CodeInternal          = "internal"
)
