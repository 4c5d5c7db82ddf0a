package kubetest

import "fmt"

// The lists of the namespace "serving".
const (
	Pods       = "/api/v1/namespaces/serving/pods"
	Services   = "/api/v1/namespaces/serving/services"
	ConfigMaps = "/api/v1/namespaces/serving/configmaps"
	Events     = "/api/v1/namespaces/serving/events"
	Pools      = "/apis/inference.networking.k8s.io/v1/namespaces/serving/inferencepools"
	OldPools   = "/apis/inference.networking.x-k8s.io/v1alpha2/namespaces/serving/inferencepools"
	Models     = "/apis/inference.networking.x-k8s.io/v1alpha2/namespaces/serving/inferencemodels"
	Rewrites   = "/apis/llm-d.ai/v1alpha2/namespaces/serving/inferencemodelrewrites"
)

// Meta is the metadata of an object.
func Meta(o Doc) Doc { return o["metadata"].(Doc) }

// Pool is a pool of the pods with a label app.
func Pool(name, app string, ports ...int) Doc {
	list := []Doc{}
	for _, p := range ports {
		list = append(list, Doc{"number": p})
	}
	return Doc{
		"kind": "InferencePool", "apiVersion": "inference.networking.k8s.io/v1",
		"metadata": Doc{"name": name, "namespace": "serving", "uid": "uid-" + name},
		"spec":     Doc{"selector": Doc{"matchLabels": map[string]string{"app": app}}, "targetPorts": list},
	}
}

// OldPool is one of v1alpha2.
func OldPool(name, app string, port int) Doc {
	return Doc{
		"kind": "InferencePool", "apiVersion": "inference.networking.x-k8s.io/v1alpha2",
		"metadata": Doc{"name": name, "namespace": "serving", "uid": "uid-" + name},
		"spec":     Doc{"selector": map[string]string{"app": app}, "targetPortNumber": port, "extensionRef": Doc{"name": name + "-epp"}},
	}
}

// Edit changes a pod before it is sent.
type Edit func(meta, spec, status Doc)

// Pod is a pod that is ready, but for edits.
func Pod(name, app, ip string, edits ...Edit) Doc {
	meta := Doc{"name": name, "namespace": "serving", "uid": "uid-" + name, "labels": map[string]string{"app": app}}
	spec := Doc{"containers": []Doc{{"name": "engine", "ports": []Doc{{"containerPort": 8000}}}}}
	status := Doc{"phase": "Running", "podIP": ip, "conditions": []Doc{{"type": "Ready", "status": "True"}}}
	for _, edit := range edits {
		edit(meta, spec, status)
	}
	return Doc{"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": status}
}

// NotReady is a pod whose readiness probe fails.
func NotReady(_, _, status Doc) { status["conditions"] = []Doc{{"type": "Ready", "status": "False"}} }

// Terminating is a pod that is asked to end.
func Terminating(meta, _, _ Doc) { meta["deletionTimestamp"] = "2026-01-01T00:00:00Z" }

// Annotated is a pod with an annotation.
func Annotated(key, value string) Edit {
	return func(meta, _, _ Doc) {
		all, _ := meta["annotations"].(map[string]string)
		if all == nil {
			all = map[string]string{}
		}
		all[key], meta["annotations"] = value, all
	}
}

// Labelled is a pod with one more label.
func Labelled(key, value string) Edit {
	return func(meta, _, _ Doc) { meta["labels"].(map[string]string)[key] = value }
}

// Restarted is a pod whose engine was started anew so many times.
func Restarted(n int) Edit {
	return func(_, _, status Doc) {
		status["containerStatuses"] = []Doc{{"name": "engine", "restartCount": n, "containerID": fmt.Sprint("fake://", n), "state": Doc{"running": Doc{}}}}
	}
}

// Model is an InferenceModel of a pool, Rewrite an InferenceModelRewrite.
func Model(name, model, pool string) Doc {
	return Doc{
		"kind": "InferenceModel", "apiVersion": "inference.networking.x-k8s.io/v1alpha2",
		"metadata": Doc{"name": name, "namespace": "serving", "uid": "uid-" + name},
		"spec":     Doc{"modelName": model, "poolRef": Doc{"name": pool}},
	}
}

// ConfigMap is one with the picker's settings.
func ConfigMap(name, settings string) Doc {
	return Doc{"kind": "ConfigMap", "apiVersion": "v1", "metadata": Doc{"name": name, "namespace": "serving"}, "data": Doc{"eppctl.yaml": settings}}
}
