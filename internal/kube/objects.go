package kube

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// InferencePool is the part of an InferencePool v1 that counts here. Its status is
// never written.
type InferencePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec PoolSpec `json:"spec"`
}

// PoolSpec says which pods are in a pool and who picks among them.
type PoolSpec struct {
	Selector          PoolSelector      `json:"selector"`
	TargetPorts       []Port            `json:"targetPorts"` // 1 to 8; each is an endpoint of its own on every pod
	AppProtocol       string            `json:"appProtocol,omitempty"`
	EndpointPickerRef EndpointPickerRef `json:"endpointPickerRef"`
}

// PoolSelector selects pods of the pool's namespace.
type PoolSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// Port is a port by its number.
type Port struct {
	Number int32 `json:"number"`
}

// EndpointPickerRef is the Service of a pool's picker.
type EndpointPickerRef struct {
	Group       string `json:"group,omitempty"` // "" for core
	Kind        string `json:"kind,omitempty"`  // Service
	Name        string `json:"name"`
	Port        *Port  `json:"port,omitempty"`
	FailureMode string `json:"failureMode,omitempty"` // FailOpen or FailClose
}

// PoolV1Alpha2 is the older InferencePool, which is only read.
type PoolV1Alpha2 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Selector         map[string]string `json:"selector"`
		TargetPortNumber int32             `json:"targetPortNumber"`
		ExtensionRef     struct {
			Group       string `json:"group,omitempty"`
			Kind        string `json:"kind,omitempty"`
			Name        string `json:"name"`
			PortNumber  *int32 `json:"portNumber,omitempty"`
			FailureMode string `json:"failureMode,omitempty"`
		} `json:"extensionRef"`
	} `json:"spec"`
}

// V1 is the pool as v1 says it.
func (p *PoolV1Alpha2) V1() *InferencePool {
	old := &p.Spec
	pool := &InferencePool{TypeMeta: p.TypeMeta, ObjectMeta: p.ObjectMeta}
	pool.Spec = PoolSpec{
		Selector:    PoolSelector{old.Selector},
		TargetPorts: []Port{{old.TargetPortNumber}},
		EndpointPickerRef: EndpointPickerRef{
			Group: old.ExtensionRef.Group, Kind: old.ExtensionRef.Kind, Name: old.ExtensionRef.Name, FailureMode: old.ExtensionRef.FailureMode,
		},
	}
	if n := old.ExtensionRef.PortNumber; n != nil {
		pool.Spec.EndpointPickerRef.Port = &Port{*n}
	}
	return pool
}

// InferenceModel maps a name that clients ask for to models or adapters of a pool.
type InferenceModel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		ModelName    string        `json:"modelName"`
		Criticality  string        `json:"criticality,omitempty"` // Critical, Standard or Sheddable; "" = not said
		TargetModels []TargetModel `json:"targetModels,omitempty"`
		PoolRef      ObjectRef     `json:"poolRef"`
	} `json:"spec"`
}

// TargetModel is one of the models that requests are split over.
type TargetModel struct {
	Name   string `json:"name"`
	Weight *int32 `json:"weight,omitempty"`
}

// ObjectRef names an object of the same namespace.
type ObjectRef struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind,omitempty"`
	Name  string `json:"name"`
}

// InferenceModelRewrite is the successor of [InferenceModel].
type InferenceModelRewrite struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		PoolRef *ObjectRef    `json:"poolRef,omitempty"`
		Rules   []RewriteRule `json:"rules"`
	} `json:"spec"`
}

// RewriteRule rewrites the models that match; without matches it matches all.
type RewriteRule struct {
	Matches []RewriteMatch  `json:"matches,omitempty"`
	Targets []RewriteTarget `json:"targets"`
}

// RewriteMatch matches the name of a model.
type RewriteMatch struct {
	Model *struct {
		Type  string `json:"type,omitempty"` // Exact
		Value string `json:"value"`
	} `json:"model,omitempty"`
}

// RewriteTarget is one of the models that requests are split over.
type RewriteTarget struct {
	ModelRewrite string `json:"modelRewrite"`
	Weight       *int32 `json:"weight,omitempty"`
}

// List is a list of objects as the API server sends it.
type List[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []T `json:"items"`
}

// DeepCopyObject implements [runtime.Object].
func (p *InferencePool) DeepCopyObject() runtime.Object { return deepCopy(p) }

// DeepCopyObject implements [runtime.Object].
func (p *PoolV1Alpha2) DeepCopyObject() runtime.Object { return deepCopy(p) }

// DeepCopyObject implements [runtime.Object].
func (m *InferenceModel) DeepCopyObject() runtime.Object { return deepCopy(m) }

// DeepCopyObject implements [runtime.Object].
func (r *InferenceModelRewrite) DeepCopyObject() runtime.Object { return deepCopy(r) }

// DeepCopyObject implements [runtime.Object].
func (l *List[T]) DeepCopyObject() runtime.Object { return deepCopy(l) }

// deepCopy copies by way of JSON, in which these objects came: client-go asks for
// copies only where somebody changes what was read, which nobody does here.
func deepCopy[T any](in *T) *T {
	b, err := json.Marshal(in)
	if err != nil {
		panic(fmt.Sprintf("copy of %T: %v", in, err)) // a type of this file that JSON can't hold
	}
	out := new(T)
	if err := json.Unmarshal(b, out); err != nil {
		panic(fmt.Sprintf("copy of %T: %v", in, err))
	}
	return out
}
