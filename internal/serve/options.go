package serve

import (
	"log/slog"
	"time"

	"github.com/eppctl/eppctl/internal/admin"
	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/picker"
	"github.com/eppctl/eppctl/internal/pool"
	"github.com/eppctl/eppctl/internal/sim/vllm"
	"github.com/eppctl/eppctl/score"
)

// Options say what to serve.
type Options struct {
	Config  config.Config
	Custom  []score.CustomWeight // of the registered custom scorers
	Scorers []picker.Custom
	Policy  picker.Policy

	Sim           *Sim          // nil = no simulated fleet
	Load          *Load         // nil = no built-in traffic; needs Sim
	Endpoints     []pool.Member // fixed endpoints
	EndpointsFile string        // watched; "" = none
	Kube          *Kube         // pools of a cluster; nil = none

	RecordDir    string // "" = records stay in memory
	RecordMemory int64  // bytes of the ring
	RecordKey    []byte // keys the block ids in records; nil = random

	// Election says which of several replicas picks; nil = all of them do. Replica is
	// this one's name; "" for the only one.
	Election Election
	Replica  string
	// Peers are where the other replicas take reports, HOST:PORT, of which HOST may be a
	// name for all of them; none: nobody is told of requests. They need a ReportToken.
	Peers []string

	ReportToken string // what pods must show; "" with Sim = a random one
	AllowWrite  bool
	AddrFile    string // where to write the real addresses; "" = nowhere
	// Linger is how long, at the end, clients are served that may not have heard of
	// it, Drain how long requests may then take to finish.
	Linger, Drain time.Duration
	quiet         time.Duration // see [clients]; 0 = the usual
	settle        time.Duration // see [picker.Config]; 0 = the usual

	MaxBody   int64 // bytes of the largest request body
	MaxBodies int64 // bytes of all bodies in flight, of the gateway and of ext_proc each
	TLS       TLS
	// Access says who may use the admin API, which is spoken over TLS then; nil =
	// everybody who can reach it.
	Access admin.Access

	Logger *slog.Logger
	Level  *slog.LevelVar
	// Ready is called once, when requests are welcome.
	Ready func(Addresses)
}

// TLS says where TLS is spoken, and with which certificate; the zero value is ext_proc
// alone, with one that is made at the start.
type TLS struct {
	CertFile, KeyFile string // in PEM form, followed
	Plaintext         bool   // no TLS with ext_proc
	// Reports: TLS at the port for reports. With Peers it takes a CertFile, the same for
	// all: so they know each other.
	Reports bool
}

// Sim describes the simulated fleet.
type Sim struct {
	Pods, Blocks int
	Speed        float64 // simulated seconds in one of the wall's
	Profile      string
	Model        string
	Adapters     []vllm.Adapter
	MaxAdapters  int
	Spot         int // pods, the last ones, that are labelled with the price of a spot A10G
	// OwnTokens gives the engines ids that are not the approximate ones.
	OwnTokens bool
	// Events makes the pods publish KV events, in the encoding of EventsAs ("" for
	// the newest), of which EventLoss is the share of batches that get lost, 0..1.
	Events    bool
	EventsAs  string
	EventLoss float64
	NoReplays bool // what is lost can't be had again
}

// Addresses are the real addresses of the listeners, "" where there is none.
type Addresses struct {
	Gateway string `json:"gateway,omitempty"`
	Extproc string `json:"extproc,omitempty"`
	Health  string `json:"health,omitempty"`
	Metrics string `json:"metrics,omitempty"`
	Admin   string `json:"admin,omitempty"`
	Report  string `json:"report,omitempty"`
	Events  string `json:"events,omitempty"` // where engines connect to for their KV events
	// Model is a model that the fleet serves, for the first request; "" when not known.
	Model string `json:"-"`
}
