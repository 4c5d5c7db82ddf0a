//go:build never

package render

// Modules whose definitions of resources are read; none of their code is built.
import (
	_ "github.com/GoogleCloudPlatform/gke-gateway-api/apis/networking/v1"
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
	_ "istio.io/api/label"
	_ "sigs.k8s.io/gateway-api-inference-extension/version"
	_ "sigs.k8s.io/gateway-api/pkg/consts"
)
