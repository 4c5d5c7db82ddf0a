package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eppctl/eppctl/internal/kube"
	"github.com/eppctl/eppctl/internal/serve"
)

// replicaFlags say how several replicas of a picker share the work.
type replicaFlags struct {
	name        string
	leaderElect string
	peers       []string
}

// usualLease stands for the Lease that is named after the pool.
const usualLease = "POOL-epp"

// peersPort is the port for reports, where replicas ask each other.
const peersPort = "9092"

func (f *replicaFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.name, "replica", "", "`NAME` of this replica (with --pool, --peers: the host's name)")
	fs.StringSliceVar(&f.peers, "peers", nil, "tell other replicas which requests were just given to which pods, and hear it from them: `SERVICE[:PORT],...` that stands for all their addresses (port "+peersPort+"); with the token of --report-token-file")
	fs.StringVar(&f.leaderElect, "leader-elect", "", "let one replica pick and the others stand by: `NAME` of a Lease in the namespace of the first pool")
	fs.Lookup("leader-elect").NoOptDefVal = usualLease
}

// check refuses what contradicts itself.
func (f *replicaFlags) check() error {
	if f.leaderElect != "" && len(f.peers) > 0 {
		return errors.New("--leader-elect and --peers exclude each other: one that picks alone has nothing to hear of others")
	}
	return nil
}

// options adds what the flags say. k is nil outside of a cluster.
func (f *replicaFlags) options(o *serve.Options, k *serve.Kube) error {
	for _, peer := range f.peers {
		if _, _, err := net.SplitHostPort(peer); err != nil {
			peer = net.JoinHostPort(strings.Trim(peer, "[]"), peersPort)
		}
		o.Peers = append(o.Peers, peer)
	}
	if len(o.Peers) > 0 && o.ReportToken == "" {
		return errors.New("--peers needs --report-token-file: what replicas tell changes where requests go")
	}
	o.Replica = f.name
	if o.Replica == "" && (k != nil || len(o.Peers) > 0) {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("--replica: the host's name is not known: %w", err)
		}
		o.Replica = host
	}
	if f.leaderElect == "" || k == nil {
		return nil
	}
	lease := kube.Name{Namespace: k.Pools[0].Namespace, Name: f.leaderElect}
	if lease.Name == usualLease {
		lease.Name = k.Pools[0].Name + "-epp"
	}
	if err := lease.Check(); err != nil {
		return fmt.Errorf("--leader-elect: %w", err)
	}
	election, err := k.Cluster.NewElection(kube.ElectionConfig{
		Namespace: lease.Namespace, Lease: lease.Name, Name: cmp.Or(o.Replica, "replica"), Logger: o.Logger,
	})
	if err != nil {
		return fmt.Errorf("--leader-elect: %w", err)
	}
	o.Election = election
	return nil
}
