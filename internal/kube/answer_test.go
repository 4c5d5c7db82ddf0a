package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/kube/kubetest"
)

// What answers with something else than was asked for has not said that there is
// nothing.
func TestAnswersOfAnotherKind(t *testing.T) {
	const pods, pools = "/api/v1/namespaces/serving/pods", "/apis/inference.networking.k8s.io/v1/namespaces/serving/inferencepools"
	asks := []struct {
		what, path, asked string
		ask               func(context.Context, *Cluster) error
	}{
		{"list inferencepools.inference.networking.k8s.io of namespace serving", pools, "InferencePoolList (inference.networking.k8s.io/v1)", func(ctx context.Context, c *Cluster) error {
			_, err := c.Pools(ctx, "serving", "")
			return err
		}},
		{"list inferencepools.inference.networking.x-k8s.io of namespace serving", "/apis/inference.networking.x-k8s.io/v1alpha2/namespaces/serving/inferencepools", "InferencePoolList (inference.networking.x-k8s.io/v1alpha2)", func(ctx context.Context, c *Cluster) error {
			_, err := c.Pools(ctx, "serving", "")
			return err
		}},
		{"get inferencepools.inference.networking.k8s.io chat of namespace serving", pools + "/chat", "InferencePool (inference.networking.k8s.io/v1)", func(ctx context.Context, c *Cluster) error {
			_, err := c.Pool(ctx, Name{"serving", "chat"})
			return err
		}},
		{"get services chat-epp of namespace serving", "/api/v1/namespaces/serving/services/chat-epp", "Service (v1)", func(ctx context.Context, c *Cluster) error {
			_, err := c.FindPicker(ctx, Name{"serving", "chat"})
			return err
		}},
		{"list pods of namespace serving", pods, "PodList (v1)", func(ctx context.Context, c *Cluster) error {
			pool := &InferencePool{}
			pool.Namespace, pool.Spec.Selector.MatchLabels = "serving", map[string]string{"app": "vllm"}
			_, err := c.PoolPods(ctx, pool)
			return err
		}},
		{"list namespaces of all namespaces", "/api/v1/namespaces", "NamespaceList (v1)", func(ctx context.Context, c *Cluster) error {
			_, err := c.Namespaces(ctx)
			return err
		}},
	}
	for _, c := range []struct{ name, body, came string }{
		{"a list of something else", `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[]}`, "NodeList (v1)"},
		{"a list that is not known", `{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{},"items":[]}`, "DeploymentList (apps/v1)"},
		{"null", `null`, `"null", which has no kind,`},
		{"nothing in it", `{}`, `"{}", which has no kind,`},
		{"no kind", `{"metadata":{},"items":[]}`, `"{\"metadata\":{},\"items\":[]}", which has no kind,`},
		{"a success", `{"kind":"Status","apiVersion":"v1","status":"Success"}`, "Status (v1)"},
		{"control characters", "{\"kind\":\"\\u001b[31mPods\",\"apiVersion\":\"v1\"}", "\x1b[31mPods (v1)"}, // what prints it leaves them out
	} {
		for _, a := range asks {
			t.Run(c.name+"/"+a.what, func(t *testing.T) {
				f := kubetest.New(t)
				chat := kubetest.Pool("chat", "vllm", 8000)
				chat["spec"].(kubetest.Doc)["endpointPickerRef"] = kubetest.Doc{"name": "chat-epp"}
				f.Put(kubetest.Pools, chat)
				f.Instead(func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == a.path {
						w.Header().Set("Content-Type", "application/json")
						_, _ = io.WriteString(w, c.body)
					}
					return r.URL.Path == a.path
				})
				err := a.ask(t.Context(), clusterOf(f))
				want := a.what + ": what answers at " + f.URL + " is no API server: it sends " + c.came + " in place of " + a.asked
				if step, ok := errors.AsType[*StepError](err); !ok || step.Trouble != Unreachable || err.Error() != want {
					t.Errorf("error %v\nwant  %s", err, want)
				}
			})
		}
	}
}

// An answer without anything in it is an error as well.
func TestEmptyAnswers(t *testing.T) {
	for name, body := range map[string]string{"nothing": "", "a list": "[]", "a number": "5", "half an object": `{"kind":`} {
		f := kubetest.New(t)
		f.Instead(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
			return true
		})
		_, err := clusterOf(f).Pools(t.Context(), "serving", "")
		if step, ok := errors.AsType[*StepError](err); !ok || !strings.HasPrefix(step.Error(), "list inferencepools") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
