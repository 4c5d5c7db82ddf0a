package kube

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
)

// leaseClient reads and writes a lease of a cluster.
type leaseClient struct {
	client          *rest.RESTClient
	namespace, name string
}

const leaseResource = "leases"

func (c *leaseClient) get(ctx context.Context) (*coordinationv1.Lease, error) {
	out := new(coordinationv1.Lease)
	return out, c.client.Get().Namespace(c.namespace).Resource(leaseResource).Name(c.name).Do(ctx).Into(out)
}

func (c *leaseClient) create(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	out := new(coordinationv1.Lease)
	return out, c.client.Post().Namespace(c.namespace).Resource(leaseResource).Body(l).Do(ctx).Into(out)
}

func (c *leaseClient) update(ctx context.Context, l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	out := new(coordinationv1.Lease)
	return out, c.client.Put().Namespace(c.namespace).Resource(leaseResource).Name(c.name).Body(l).Do(ctx).Into(out)
}
