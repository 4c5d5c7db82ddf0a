package deptest

// rule is one arrow that must not be, or the only ones that may.
type rule struct {
	why  string
	from []string // patterns of importing packages, see match
	not  []string // of those, the ones that the rule leaves alone

	// only lists all that may be imported; deny what may not. One of them is set.
	only []string
	deny []string

	// direct looks at a package's own imports, else at everything below it too.
	direct bool

	// example is an import that the rule must catch: a rule that catches
	// nothing is a comment.
	example [2]string
}

// rules is the layout:
//
//	main ─▶ cmd ─▶ tui ─▶ explain ─▶ score
//	        cmd ─▶ internal/… ─▶ explain ─▶ score
var rules = []rule{
	{
		why:     "score is the pure engine: standard library only",
		from:    []string{"score/..."},
		not:     []string{"score/scoretest"},
		only:    []string{"std", "score/..."},
		example: [2]string{"score", "internal/clock"},
	},
	{
		why:     "scoretest replays records, whose type is explain's; authors of scorers get nothing else with it",
		from:    []string{"score/scoretest"},
		only:    []string{"std", "score/...", "explain"},
		example: [2]string{"score/scoretest", "pgregory.net/rapid"},
	},
	{
		why:     "the engine needs no test kit",
		from:    []string{"score", "explain/...", "cmd/...", "internal/..."},
		deny:    []string{"score/scoretest"},
		example: [2]string{"score", "score/scoretest"},
	},
	{
		why:     "score does no I/O",
		from:    []string{"score"},
		deny:    []string{"os", "os/...", "net", "net/...", "log", "log/...", "io/fs", "syscall"},
		direct:  true,
		example: [2]string{"score", "net/http"},
	},
	{
		why:     "explain is pure and the record's type is its own: score and the standard library only",
		from:    []string{"explain/..."},
		only:    []string{"std", "score/...", "explain/..."},
		example: [2]string{"explain", "sigs.k8s.io/yaml"},
	},
	{
		why:     "explain neither reads nor writes: callers do",
		from:    []string{"explain"},
		deny:    []string{"os", "os/...", "net", "net/...", "log", "log/...", "syscall"},
		direct:  true,
		example: [2]string{"explain", "os"},
	},
	{
		why:     "tui knows explain and score; its data comes through its own Source",
		from:    []string{"tui/..."},
		deny:    []string{"internal/...", "cmd/...", "."},
		example: [2]string{"tui", "internal/admin"},
	},
	{
		why:     "arrows never point back from internal",
		from:    []string{"internal/..."},
		not:     []string{"internal/e2e/..."},
		deny:    []string{"cmd/...", "tui/...", "."},
		example: [2]string{"internal/picker", "cmd"},
	},
	{
		why:     "the simulated engine's cache is its own: shared code would share its mistakes",
		from:    []string{"internal/sim/..."},
		deny:    []string{"internal/prefix/...", "internal/picker/...", "internal/pool/..."},
		example: [2]string{"internal/sim", "internal/prefix"},
	},
	{
		why:     "the prefix tree knows blocks and pods, nothing above them",
		from:    []string{"internal/prefix/..."},
		only:    []string{"std", "internal/prefix/...", "github.com/cespare/xxhash/v2"},
		example: [2]string{"internal/prefix", "internal/pool"},
	},
	{
		why:     "rules for names know no cluster: others read them from one",
		from:    []string{"internal/naming/..."},
		only:    []string{"std", "internal/naming/..."},
		example: [2]string{"internal/naming", "internal/kube"},
	},
	{
		why:     "only internal/kube talks to Kubernetes",
		from:    []string{"..."},
		not:     []string{"internal/kube/...", "internal/e2e/..."},
		deny:    []string{"k8s.io/..."},
		direct:  true,
		example: [2]string{"internal/pool", "k8s.io/client-go/rest"},
	},
	{
		why:     "only cmd knows flags",
		from:    []string{"..."},
		not:     []string{"cmd/..."},
		deny:    []string{"github.com/spf13/..."},
		direct:  true,
		example: [2]string{"internal/config", "github.com/spf13/cobra"},
	},
	{
		why:     "only tui and cmd know the terminal programs",
		from:    []string{"..."},
		not:     []string{"cmd/...", "tui/..."},
		deny:    []string{"charm.land/..."},
		direct:  true,
		example: [2]string{"explain", "charm.land/lipgloss/v2"},
	},
	{
		why:     "only internal/extproc speaks to Envoy; serve lends it the server",
		from:    []string{"..."},
		not:     []string{"internal/extproc/...", "internal/serve/...", "internal/e2e/..."},
		deny:    []string{"github.com/envoyproxy/...", "google.golang.org/grpc/..."},
		direct:  true,
		example: [2]string{"internal/picker", "google.golang.org/grpc"},
	},
	{
		why:     "what is made for tests is in no program",
		from:    []string{"..."},
		not:     append([]string{"internal/e2e/..."}, forTests...),
		deny:    append([]string{"testing"}, forTests...),
		example: [2]string{"internal/kube", "internal/kube/kubetest"},
	},
	{
		why:     "main starts cmd and nothing else",
		from:    []string{"."},
		only:    []string{"std", "cmd"},
		direct:  true,
		example: [2]string{".", "internal/picker"},
	},
	{
		why:  "third-party code comes in by decision: extend this list with it",
		from: []string{"..."},
		not:  []string{"internal/golden"}, // with what tests compare
		only: []string{
			"std", "...",
			"charm.land/...",                        // the dashboard: Bubble Tea, Lip Gloss, Bubbles
			"github.com/HdrHistogram/...",           // latencies of the load client
			"github.com/cespare/xxhash/v2",          // the engines' fingerprints are xxHash64
			"github.com/charmbracelet/colorprofile", // the colours that a terminal has
			"github.com/charmbracelet/x/...",        // widths of text, terminal size
			"github.com/envoyproxy/...",             // what Envoy says: ext_proc, access log
			"github.com/google/uuid",                // request and decision IDs
			"github.com/klauspost/compress/zstd",    // rotated records and logs
			"github.com/prometheus/...",             // exposition format, both directions
			"github.com/spf13/cobra",                // commands
			"github.com/tinylib/msgp/msgp",          // KV events are msgpack
			"github.com/spf13/pflag",                // what cobra's flags are
			"golang.org/x/sync/...",                 // errgroup
			"google.golang.org/grpc/...",            // ext_proc, health
			"google.golang.org/protobuf/...",        // their messages, the delimited exposition format
			"k8s.io/...",                            // the API of Kubernetes; internal/kube alone
			"sigs.k8s.io/yaml", "go.yaml.in/...",    // strict configuration, line numbers
		},
		direct:  true,
		example: [2]string{"internal/pool", "github.com/pkg/errors"},
	},
}

// forTests are packages that only tests import.
var forTests = []string{"internal/golden/...", "internal/heaptest/...", "internal/kube/kubetest/...", "internal/logtest/...", "internal/nettest/...", "internal/proctest/...", "internal/zmtp/zmqtest/..."}

// large are packages that would bring in all of Kubernetes' types, or keep the linker
// from dropping unused methods.
var large = []string{
	"k8s.io/client-go/kubernetes/...", "k8s.io/client-go/informers/...", "k8s.io/client-go/listers/...",
	"k8s.io/client-go/dynamic/...", "k8s.io/client-go/tools/leaderelection/...", "k8s.io/client-go/discovery/...",
	"golang.org/x/net/trace",
}

// topLevel is what may lie in the module's root, besides dotfiles and what
// .gitignore names.
var topLevel = []string{
	"LICENSE", "README.md", "cmd", "docs", "explain", "go.mod", "go.sum", "internal", "main.go", "main_test.go",
	"score", "testdata", "tui",
}

// emptyNames say nothing about what a package provides.
var emptyNames = []string{"base", "common", "helper", "helpers", "lib", "misc", "model", "models", "shared", "types", "util", "utils"}
