package kube

import (
	"net/http"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// The groups of the API that are used beside Kubernetes' own.
var (
	// PoolV1 has the InferencePool of Gateway API Inference Extension v1.
	PoolV1 = schema.GroupVersion{Group: "inference.networking.k8s.io", Version: "v1"}
	// InferenceX is the extension's older group: InferencePool, InferenceModel and the
	// first InferenceModelRewrite.
	InferenceX = schema.GroupVersion{Group: "inference.networking.x-k8s.io", Version: "v1alpha2"}
	// LLMD has the InferenceModelRewrite that llm-d moved to its own group.
	LLMD = schema.GroupVersion{Group: "llm-d.ai", Version: "v1alpha2"}
)

// scheme is made once: what is in it never changes.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // two types of one name, which the compiler could have seen
		}
	}
	s.AddKnownTypeWithName(PoolV1.WithKind("InferencePool"), &InferencePool{})
	s.AddKnownTypeWithName(PoolV1.WithKind("InferencePoolList"), &List[InferencePool]{})
	s.AddKnownTypeWithName(InferenceX.WithKind("InferencePool"), &PoolV1Alpha2{})
	s.AddKnownTypeWithName(InferenceX.WithKind("InferencePoolList"), &List[PoolV1Alpha2]{})
	s.AddKnownTypeWithName(InferenceX.WithKind("InferenceModel"), &InferenceModel{})
	s.AddKnownTypeWithName(InferenceX.WithKind("InferenceModelList"), &List[InferenceModel]{})
	for _, gv := range []schema.GroupVersion{InferenceX, LLMD} {
		s.AddKnownTypeWithName(gv.WithKind("InferenceModelRewrite"), &InferenceModelRewrite{})
		s.AddKnownTypeWithName(gv.WithKind("InferenceModelRewriteList"), &List[InferenceModelRewrite]{})
	}
	for _, gv := range []schema.GroupVersion{PoolV1, InferenceX, LLMD} {
		metav1.AddToGroupVersion(s, gv)
	}
	return s
})

// client is a REST client for one version of a group.
func (c *Cluster) client(gv schema.GroupVersion) (*rest.RESTClient, error) {
	config := rest.CopyConfig(c.config)
	config.GroupVersion = &gv
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme()).WithoutConversion()
	config.APIPath = "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
		config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return limited{next} })
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client.CheckRedirect = sameServer
	return rest.RESTClientForConfigAndClient(config, impatient(config, client))
}

// core is the client for pods, services, config maps and events.
func (c *Cluster) core() (*rest.RESTClient, error) { return c.client(corev1.SchemeGroupVersion) }
