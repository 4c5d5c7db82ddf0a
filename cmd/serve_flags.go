package cmd

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/sim"
	"github.com/eppctl/eppctl/score"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	sim                                int
	simBlocks, simMaxAdapters, simSpot int
	simSpeed                           float64
	simProfile, simModel, simLoad      string
	simAdapters                        []string
	simEvents                          bool
	simEventsAs                        string
	simEventLoss                       float64
	simEventReplay                     bool
	simLoadLimit                       int
	simLoadRate                        float64
	simLoadStay                        bool
	endpoints                          []string
	endpointsFile                      string
	pools                              []string
	poolConfig                         string
	cluster                            clusterFlags
	replica                            replicaFlags
	policy                             string
	configFile                         string
	checkConfig, printConfig           bool
	recordDir, recordMemory, recordKey string
	addresses                          config.Addresses
	addrFile                           string
	reportToken, reportTokenFile       string
	allowWrite, adminAuth              bool
	drain                              time.Duration
	logLevel                           string
	maxBody, maxBodies                 string
	tlsCert, tlsKey                    string
	plaintext, reportTLS               bool
	fallbacks                          int
	scoresMetadata                     bool
	preset                             string
	maxQueue                           int
	saturation                         string
}

func (f *serveFlags) register(c *cobra.Command) {
	flagGroup(c, "Simulated fleet", f.registerSim)
	flagGroup(c, "Built-in traffic for the simulated fleet", f.registerLoad)
	flagGroup(c, "Model servers", func(fs *pflag.FlagSet) {
		fs.StringArrayVar(&f.endpoints, "endpoint", nil, "a model server: `NAME=http://HOST:PORT` (repeatable)")
		fs.StringVar(&f.endpointsFile, "endpoints", "", "`FILE` with model servers, watched for changes")
	})
	flagGroup(c, "Pools of a Kubernetes cluster", func(fs *pflag.FlagSet) {
		fs.StringArrayVar(&f.pools, "pool", nil, "an InferencePool whose pods are served: `NAMESPACE/NAME`, or NAME in the context's namespace (repeatable)")
		fs.StringVar(&f.poolConfig, "pool-config", "", "`NAME` of a ConfigMap in the namespace of the first pool, with the configuration under its key eppctl.yaml (default: the pool's annotation eppctl.dev/config)")
	})
	flagGroup(c, clusterHeading, f.cluster.register)
	flagGroup(c, "Several replicas", f.replica.register)
	flagGroup(c, "Routing", func(fs *pflag.FlagSet) {
		fs.StringVar(&f.configFile, "config", "", "configuration `FILE` (YAML)")
		fs.BoolVar(&f.checkConfig, "check-config", false, "check the configuration, and the endpoints, and end")
		fs.BoolVar(&f.printConfig, "print-config", false, "print the configuration with all defaults and end")
		fs.StringVar(&f.preset, "preset", "", "weights for a `WORKLOAD`: default, chatbot, api-gateway, multi-lora, batch or rag")
		fs.IntVar(&f.maxQueue, "max-queue", 0, "a pod with `N` requests waiting counts as full (default: the preset's)")
		fs.StringVar(&f.saturation, "saturation", "", "`WHAT` to do when all queues are full: relax lets the cache decide, reject answers 429 (default relax)")
		fs.StringVar(&f.policy, "policy", "scores", "`WHAT` picks: scores, or for comparison random, round-robin or least-connections")
	})
	flagGroup(c, "Records", func(fs *pflag.FlagSet) {
		fs.StringVar(&f.recordDir, "record", "", "append every completed decision to files in this `DIR`, as JSON Lines")
		fs.StringVar(&f.recordMemory, "record-memory", "128MiB", "`SIZE` of the memory for recorded decisions")
		fs.StringVar(&f.recordKey, "record-key", "", "`FILE` with the secret that keys block ids in records, so that replicas agree")
	})
	flagGroup(c, "Addresses", f.registerAddresses)
	flagGroup(c, "Behind Envoy (ext_proc)", f.registerExtproc)
	flagGroup(c, "Operation", func(fs *pflag.FlagSet) {
		fs.BoolVar(&f.adminAuth, "admin-auth", false, "serve the admin API on all addresses (:9091), over TLS, to whom the cluster allows it by TokenReview and SubjectAccessReview")
		fs.BoolVar(&f.allowWrite, "allow-write", false, "let the admin API change weights and log level, and drain pods")
		fs.DurationVar(&f.drain, "drain", 30*time.Second, "at the end, serve on for this `TIME` while clients may not know of it; then requests get as long to finish")
		fs.StringVar(&f.logLevel, "log-level", "", "log from this `LEVEL` on: trace, debug, info, warn or error (default info)")
		fs.StringVar(&f.maxBody, "max-body", "16MiB", "`SIZE` of the largest request body")
		fs.StringVar(&f.maxBodies, "max-bodies", "256MiB", "`SIZE` of the memory for request bodies in flight, of the gateway and of ext_proc each")
	})
	for flag, values := range map[string][]string{
		"sim-profile":   {"llama-8b", "llama-70b"},
		"sim-events-as": sim.EventEncodings(),
		"preset":        score.PresetNames(),
		"saturation":    {"relax", "reject"},
		"policy":        {"scores", "random", "round-robin", "least-connections"},
		"log-level":     {"trace", "debug", "info", "warn", "error"},
	} {
		_ = c.RegisterFlagCompletionFunc(flag, oneOf(values...)) // fails only for a flag that is not there
	}
}

func (f *serveFlags) registerSim(fs *pflag.FlagSet) {
	fs.IntVar(&f.sim, "sim", 0, "bring a fleet of `N` simulated vLLM pods")
	fs.IntVar(&f.simBlocks, "sim-blocks", 32768, "KV cache of `N` blocks of 16 tokens in each pod")
	fs.Float64Var(&f.simSpeed, "sim-speed", 20, "let `N` simulated seconds pass in one of the wall's")
	fs.StringVar(&f.simProfile, "sim-profile", "llama-8b", "what a step costs: `PROFILE` is llama-8b or llama-70b")
	fs.StringVar(&f.simModel, "sim-model", "", "`NAME` of the base model that the pods serve")
	fs.StringSliceVar(&f.simAdapters, "sim-adapters", nil, "LoRA adapters that the pods can load, as `NAME[:RANK],...`")
	fs.IntVar(&f.simMaxAdapters, "sim-max-adapters", 4, "a pod holds `N` LoRA adapters at once")
	fs.BoolVar(&f.simEvents, "sim-events", true, "let the pods publish KV events over ZMQ, as vLLM does; without, they tell their caches in status reports")
	fs.StringVar(&f.simEventsAs, "sim-events-as", "vllm-0.24", "encode the KV events as `VERSION` did: vllm-0.8 up to vllm-0.24, sglang-array or sglang-map")
	fs.Float64Var(&f.simEventLoss, "sim-event-loss", 0, "lose this `SHARE` of the messages with KV events, 0 to 1")
	fs.BoolVar(&f.simEventReplay, "sim-event-replay", true, "let the pods send again what was missed, as vLLM does with a replay_endpoint")
	fs.IntVar(&f.simSpot, "sim-spot", 0, "give the last `N` pods the price of a spot A10G, for scorers that know prices")
}

func (f *serveFlags) registerLoad(fs *pflag.FlagSet) {
	fs.StringVar(&f.simLoad, "sim-load", "", "`RATE` in requests a simulated second, or a trace file in Mooncake's format")
	fs.IntVar(&f.simLoadLimit, "sim-load-limit", 0, "end after `N` requests")
	fs.Float64Var(&f.simLoadRate, "sim-load-rate", 1, "multiply the arrival rate by `X`")
	fs.BoolVar(&f.simLoadStay, "sim-load-stay", false, "go on serving after the traffic has ended")
}

func (f *serveFlags) registerExtproc(fs *pflag.FlagSet) {
	fs.StringVar(&f.tlsCert, "tls-cert", "", "`FILE` with the TLS certificate, followed as it changes (default: one made at the start)")
	fs.StringVar(&f.tlsKey, "tls-key", "", "`FILE` with the key of --tls-cert")
	fs.BoolVar(&f.plaintext, "plaintext", false, "no TLS")
	fs.IntVar(&f.fallbacks, "fallbacks", 0, "name the `N` next best endpoints too; only for Envoy clusters of type override_host")
	fs.BoolVar(&f.scoresMetadata, "scores-metadata", false, "send the scores of the named endpoints as metadata")
}

func (f *serveFlags) registerAddresses(fs *pflag.FlagSet) {
	d := config.Default().Addresses
	fs.StringVar(&f.addresses.Gateway, "gateway-addr", d.Gateway, "`HOST:PORT` of the gateway (with --pool: none)")
	fs.StringVar(&f.addresses.Extproc, "extproc-addr", d.Extproc, "`HOST:PORT` of ext_proc, for Envoy (with --pool: :9002)")
	fs.StringVar(&f.addresses.Health, "health-addr", d.Health, "`HOST:PORT` of /healthz, /readyz and gRPC health (with --pool: :9003)")
	fs.StringVar(&f.addresses.Metrics, "metrics-addr", d.Metrics, "`HOST:PORT` of /metrics (with --pool: :9090)")
	fs.StringVar(&f.addresses.Admin, "admin-addr", d.Admin, "`HOST:PORT` of the admin API")
	fs.StringVar(&f.addresses.Report, "report-addr", d.Report, "`HOST:PORT` for status reports of pods (with --pool: :9092); without --sim only with a token")
	fs.StringVar(&f.reportToken, "report-token", "", "bearer `TOKEN` that reporting pods must show (better: --report-token-file)")
	fs.StringVar(&f.reportTokenFile, "report-token-file", "", "`FILE` with the bearer token that reporting pods must show")
	fs.BoolVar(&f.reportTLS, "report-tls", false, "TLS for status reports and between replicas, with the certificate of --tls-cert")
	fs.StringVar(&f.addrFile, "addr-file", "", "write the real addresses to this `FILE` as JSON, when ready")
}
