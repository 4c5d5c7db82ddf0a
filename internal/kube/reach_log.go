package kube

import (
	"context"
	"errors"
	"io"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxLog bounds the log of a container, in bytes. A kubelet keeps 10 MiB unless it was
// told otherwise.
const maxLog = 1 << 30

// LogOptions say what of a log is read.
type LogOptions struct {
	Follow   bool // go on with what is written, until the container ends
	Previous bool // of the container before its last restart
}

// Log reads the log of a container, as 'kubectl logs' does. The error is a
// [*StepError]; one without a log, as before its first restart, is Missing.
func (c *Cluster) Log(ctx context.Context, namespace, pod, container string, opts LogOptions) (io.ReadCloser, error) {
	long := *c // a log may take longer than a request
	long.config = c.tunnelConfig()
	client, err := long.core()
	if err != nil {
		return nil, err
	}
	req := client.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("log").Param("limitBytes", strconv.Itoa(maxLog))
	if container != "" {
		req = req.Param("container", container)
	}
	if opts.Follow {
		req = req.Param("follow", "true")
	}
	if opts.Previous {
		req = req.Param("previous", "true")
	}
	log, err := req.Stream(ctx)
	if err == nil {
		return log, nil
	}
	err = c.failed(ctx, access{"get", "pods/log", namespace, pod}, err)
	if step, ok := errors.AsType[*StepError](err); ok && (apierrors.IsBadRequest(step.Err) || apierrors.IsNotFound(step.Err)) {
		step.Trouble = Missing
	}
	return nil, err
}
