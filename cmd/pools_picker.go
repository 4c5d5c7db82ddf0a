package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eppctl/eppctl/internal/kube"
)

// troublesTimeout bounds the answer of a replica that is asked how it fares: the list
// does not wait for one that hangs.
const troublesTimeout = 5 * time.Second

// poolTrouble is what a picker says is wrong.
type poolTrouble struct {
	// Replicas are those that say so.
	Replicas []string `json:"replicas"`
	// Reason is as in the Kubernetes Events about the pool; or NoNews: what the replica
	// knows of the cluster is not up to date.
	Reason string    `json:"reason"`
	Note   string    `json:"note"`
	Since  time.Time `json:"since"` // as the first replica has it
}

const reasonNoNews = "NoNews"

// graveTroubles are those with which no request is served.
var graveTroubles = []string{"NoReadyEndpoint", "PortMismatch"}

// pickerWords is what of GET /v1/config tells how a picker fares in its cluster.
type pickerWords struct {
	Kube *struct {
		Problems []pickerProblem
		Troubles []struct {
			Pool, Reason, Note string
			Since              time.Time
		}
	}
	version string // as the picker says, when nothing else tells it
}

// pickerProblem is a list of objects that is not up to date; one that is forbidden is
// among the troubles.
type pickerProblem struct {
	What, Reason string
	Since        time.Time
	Forbidden    bool
}

// troublesOf asks a picker's replicas what is wrong with a pool, and for their versions,
// by pod, where nothing else tells them. The error is of those that could not be asked,
// after what the others say.
func troublesOf(ctx context.Context, cluster *kube.Cluster, picker *kube.Picker, token string) (troubles []poolTrouble, versions map[string]string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, troublesTimeout, fmt.Errorf("no answer in %s", troublesTimeout))
	defer cancel()
	r, err := newReplicas(ctx, cluster, picker, token)
	if err != nil {
		return nil, nil, err
	}
	defer r.close()
	pods := picker.Running()
	said, errs := make([]*pickerWords, len(pods)), make([]error, len(pods))
	var asked errgroup.Group
	asked.SetLimit(maxReplicasAtOnce)
	for i, pod := range pods {
		asked.Go(func() error {
			said[i], errs[i] = r.words(ctx, pod)
			return nil
		})
	}
	_ = asked.Wait() // what went wrong is in errs
	troubles, versions = []poolTrouble{}, map[string]string{}
	for i, words := range said {
		if words == nil {
			continue
		}
		if words.version != "" {
			versions[pods[i].Name] = words.version
		}
		troubles = words.add(troubles, picker.Pool.String(), pods[i].Name)
	}
	return troubles, versions, errors.Join(errs...)
}

func (r *replicas) words(ctx context.Context, pod kube.PickerPod) (*pickerWords, error) {
	client, err := r.client(pod.Name, pod)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	doc, err := client.Config(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("%s: %w", pod.Name, brief(err))
	}
	raw, err := json.Marshal(doc.Config)
	words := new(pickerWords)
	if err == nil {
		err = json.Unmarshal(raw, words)
	}
	if pod.Vague {
		if doc, err := client.Version(ctx); err == nil {
			words.version = doc.Info.Version
		}
	}
	return words, err
}

// add adds what a replica says of a pool.
func (w *pickerWords) add(to []poolTrouble, pool, replica string) []poolTrouble {
	if w.Kube == nil {
		return to // it has no cluster
	}
	for _, t := range w.Kube.Troubles {
		if t.Pool == pool {
			to = merge(to, poolTrouble{[]string{replica}, t.Reason, t.Note, t.Since})
		}
	}
	p := slices.DeleteFunc(w.Kube.Problems, func(p pickerProblem) bool { return p.Forbidden })
	if len(p) == 0 {
		return to
	}
	slices.SortStableFunc(p, func(a, b pickerProblem) int { return a.Since.Compare(b.Since) })
	of := p[0].What
	if len(p) > 1 {
		of += fmt.Sprintf(" and %d more", len(p)-1)
	}
	note := fmt.Sprintf("no news from the API server since %s of %s, the last known pods stand: %s", p[0].Since.UTC().Format(time.RFC3339), of, p[0].Reason)
	return merge(to, poolTrouble{[]string{replica}, reasonNoNews, note, p[0].Since})
}

// merge adds a trouble, which another replica may have told in the same words.
func merge(to []poolTrouble, t poolTrouble) []poolTrouble {
	i := slices.IndexFunc(to, func(o poolTrouble) bool { return o.Reason == t.Reason && o.Note == t.Note })
	if i < 0 {
		return append(to, t)
	}
	to[i].Replicas = append(to[i].Replicas, t.Replicas...)
	if t.Since.Before(to[i].Since) {
		to[i].Since = t.Since
	}
	return to
}

// seeTroubles takes what the picker says, and that it can't be asked.
func (p *poolItem) seeTroubles(troubles []poolTrouble, err error) {
	p.Asked, p.Troubles = err == nil, append(p.Troubles, troubles...)
	for _, t := range troubles {
		health := healthDegraded
		if slices.Contains(graveTroubles, t.Reason) {
			health = healthDown
		}
		text := t.Note
		if p.Replicas != nil && len(t.Replicas) < *p.Replicas {
			text = strings.Join(t.Replicas, ", ") + ": " + text
		}
		p.say(health, text)
	}
	if err != nil {
		p.say(healthUnknown, "the picker was not asked how it fares: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}
