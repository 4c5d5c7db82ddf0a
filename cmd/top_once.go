package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eppctl/eppctl/explain"
	"github.com/eppctl/eppctl/internal/cli"
	"github.com/eppctl/eppctl/internal/kube"
)

const (
	// onceTimeout bounds the answer of a replica that is asked once.
	onceTimeout = 20 * time.Second
	// maxReplicasAtOnce bounds the replicas that are asked at the same time.
	maxReplicasAtOnce = 16
)

// kindSnapshotList is the kind of a [snapshotList].
const kindSnapshotList = "SnapshotList"

// snapshotList is what the replicas of a picker know, each by itself: their counts are
// of their own picks, and what they know of a pod is not of the same moment.
type snapshotList struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Items      []*explain.Snapshot `json:"items"` // of each replica that runs; router.replica names it
}

// several reports whether there are replicas that tell of themselves alone.
func (r *replicas) several() bool {
	return r != nil && r.kind == kube.KindEppctl && len(r.picker.Running()) > 1
}

// snapshots asks all replicas that run. One that does not answer has a snapshot that
// says so, and its error at the same place.
func (r *replicas) snapshots(ctx context.Context, now time.Time) (list []*explain.Snapshot, errs []error) {
	running := r.picker.Running()
	list, errs = make([]*explain.Snapshot, len(running)), make([]error, len(running))
	var asked errgroup.Group
	asked.SetLimit(maxReplicasAtOnce)
	for i, pod := range running {
		asked.Go(func() error {
			list[i], errs[i] = r.snapshot(ctx, pod)
			if errs[i] != nil {
				list[i] = unreachable(address(pod.Name, pod.AdminPort), explain.SourcePicker, errs[i], now)
			}
			list[i].Router.Replica = pod.Name
			return nil
		})
	}
	_ = asked.Wait() // what went wrong is in errs
	return list, errs
}

func (r *replicas) snapshot(ctx context.Context, pod kube.PickerPod) (*explain.Snapshot, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, onceTimeout, fmt.Errorf("no answer in %s", onceTimeout))
	defer cancel()
	client, err := r.client(pod.Name, pod)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Snapshot(ctx)
}

// each prints what each replica tells. That some can't tell is the exit status, after
// what the others do.
func (p *topPrinter) each(ctx context.Context, r *replicas) error {
	for _, pod := range r.picker.Pods {
		if !pod.Running {
			warner(p.printer.Streams)(fmt.Sprintf("replica %s is not asked: it does not run (%s)", pod.Name, pod.State))
		}
	}
	list, errs := r.snapshots(ctx, p.printer.Streams.Now())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := p.list(list); err != nil {
		return err
	}
	return silentReplicas(list, errs)
}

// silentReplicas is the error that names the replicas which could not be asked.
func silentReplicas(list []*explain.Snapshot, errs []error) error {
	var failed []string
	var first error
	for i, err := range errs {
		if err != nil {
			failed, first = append(failed, list[i].Router.Replica+": "+brief(err).Error()), cmp.Or(first, err)
		}
	}
	if first == nil {
		return nil
	}
	code, hint := cli.ExitUnreachable, ""
	if e, ok := errors.AsType[*cli.Error](clientError(first)); ok {
		code, hint = e.Code, e.Hint
	}
	return cli.WithHint(fmt.Errorf("%d of %d replicas can't be asked: %s", len(failed), len(list), strings.Join(failed, "; ")), code, hint)
}

// list prints snapshots of replicas, each with its name.
func (p *topPrinter) list(list []*explain.Snapshot) error {
	switch p.printer.Format {
	case cli.FormatJSON, cli.FormatYAML:
		return p.printer.Document(snapshotList{explain.APIVersion, kindSnapshotList, list})
	case cli.FormatJSONL:
		for _, s := range list {
			if err := p.printer.Line(s); err != nil {
				return err
			}
		}
		return nil
	default:
		return p.replicas(list)
	}
}

// replicas prints the verdict of each, and one table: what they know of a pod stands
// one below the other.
func (p *topPrinter) replicas(list []*explain.Snapshot) error {
	var rows [][]string
	for _, s := range list {
		p.verdict(s, s.Router.Replica)
		for i := range s.Pods {
			texts := podTexts(&s.Pods[i], s.FromOutside())
			rows = append(rows, slices.Insert(texts, 1, s.Router.Replica))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortStableFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	table := p.printer.Table(slices.Insert(podColumns(), 1, cli.Column{Name: "REPLICA", Min: 8})...)
	for _, row := range rows {
		table.Row(row...)
	}
	return table.Flush()
}
