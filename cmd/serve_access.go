package cmd

import (
	"fmt"

	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/internal/serve"
)

// adminEverywhere is the admin API's address where clients show who they are.
const adminEverywhere = ":9091"

// guard lets the cluster say who may use the admin API, if that is wanted.
func (f *serveFlags) guard(o *serve.Options, k *serve.Kube) error {
	if !f.adminAuth || k == nil {
		return nil
	}
	reviewer, err := k.Cluster.NewReviewer(o.Logger)
	if err != nil {
		return fmt.Errorf("--admin-auth: %w", err)
	}
	o.Access = reviewer
	if o.Config.Addresses.Admin == config.InCluster().Addresses.Admin {
		o.Config.Addresses.Admin = adminEverywhere
	}
	return nil
}
