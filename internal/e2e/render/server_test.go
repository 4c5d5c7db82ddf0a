package render

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/eppctl/eppctl/internal/deploy"
	"github.com/eppctl/eppctl/internal/e2e/cluster"
)

// definitions are the files with the resources that the manifests use beside
// Kubernetes' own, and the modules that publish them.
var definitions = []struct{ module, file, resource string }{
	{"sigs.k8s.io/gateway-api-inference-extension", "config/crd/bases/inference.networking.k8s.io_inferencepools.yaml", "inferencepools.inference.networking.k8s.io"},
	{"sigs.k8s.io/gateway-api", "config/crd/standard/gateway.networking.k8s.io_gatewayclasses.yaml", "gatewayclasses.gateway.networking.k8s.io"},
	{"sigs.k8s.io/gateway-api", "config/crd/standard/gateway.networking.k8s.io_gateways.yaml", "gateways.gateway.networking.k8s.io"},
	{"sigs.k8s.io/gateway-api", "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml", "httproutes.gateway.networking.k8s.io"},
	{"istio.io/api", "kubernetes/customresourcedefinitions.gen.yaml", "destinationrules.networking.istio.io"},
	{"github.com/GoogleCloudPlatform/gke-gateway-api", "config/crd/networking.gke.io_healthcheckpolicies.yaml", "healthcheckpolicies.networking.gke.io"},
	{"github.com/GoogleCloudPlatform/gke-gateway-api", "config/crd/networking.gke.io_gcpbackendpolicies.yaml", "gcpbackendpolicies.networking.gke.io"},
	{"github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml", "servicemonitors.monitoring.coreos.com"},
	{"github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml", "podmonitors.monitoring.coreos.com"},
}

// patience is how long the API server may take to serve a resource.
const patience = time.Minute

// The API server takes every object as it is: no field that it does not know, none that
// is missing, none that a rule of the resource forbids.
func TestAPIServerTakesTheManifests(t *testing.T) {
	c := cluster.StartOwn(t)
	for _, d := range definitions {
		c.Apply(definition(t, d.module, d.file, d.resource))
	}
	var seen []string
	for _, i := range installs {
		text := manifests(t, c.Namespace, i)
		if err := eventually(func() error { return c.DryRun(text) }); err != nil {
			t.Errorf("%s: %v", i.name, err)
		}
		for _, object := range objects(t, text) {
			seen = append(seen, object["kind"].(string))
		}
	}
	for _, kind := range deploy.Kinds() {
		if !slices.Contains(seen, kind) {
			t.Errorf("no install has a %s", kind)
		}
	}
	// A mistake in one of Kubernetes' resources, or of others, would be seen.
	text := manifests(t, c.Namespace, installs[0])
	for right, wrong := range map[string]string{
		"readOnlyRootFilesystem": "readonlyRootFilesystem",
		"endpointPickerRef:":     "endpointPicker:",
		"maxUnavailable: 1\n":    "maxUnavailable: none\n",
	} {
		if c.DryRun(strings.Replace(text, right, wrong, 1)) == nil {
			t.Errorf("%q in the place of %q was not seen", wrong, right)
		}
	}
}

// Applied, the objects of a first install are there, in the order in which they come.
func TestAPIServerInstallsTheManifests(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(manifests(t, c.Namespace, installs[0]))
	var deployment struct {
		Spec struct{ Replicas int }
	}
	c.Get(cluster.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "chat-epp"}, &deployment)
	var pool struct {
		Spec struct {
			EndpointPickerRef struct{ Name, Kind, FailureMode string }
		}
	}
	c.Get(cluster.PoolRef("chat"), &pool)
	if ref := pool.Spec.EndpointPickerRef; deployment.Spec.Replicas != 1 || ref.Name != "chat-epp" || ref.Kind != "Service" || ref.FailureMode != "FailOpen" {
		t.Errorf("%+v, %+v", deployment, pool)
	}
}

// The strictest of the Pod Security Standards takes the picker's pods.
func TestPodsAreRestricted(t *testing.T) {
	c := cluster.Start(t)
	c.Patch(cluster.Ref{APIVersion: "v1", Kind: "Namespace", Name: c.Namespace}, `metadata: {labels: {pod-security.kubernetes.io/enforce: restricted}}`)
	for _, i := range installs[:3] {
		deployment := objects(t, manifests(t, c.Namespace, i, "--only", "Deployment"))["Deployment chat-epp"]
		pod := deployment["spec"].(map[string]any)["template"].(map[string]any)
		pod["apiVersion"], pod["kind"] = "v1", "Pod"
		pod["metadata"].(map[string]any)["name"] = "chat-epp"
		text, err := yaml.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.DryRun(string(text)); err != nil {
			t.Errorf("%s: %v", i.name, err)
		}
		if c.DryRun(strings.Replace(string(text), "runAsNonRoot: true", "runAsNonRoot: false", 1)) == nil {
			t.Errorf("%s: a pod that may run as root is taken too, so this test sees nothing", i.name)
		}
	}
}

// eventually waits for what the API server does not serve yet.
func eventually(try func() error) error {
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := try()
		if err == nil || time.Now().After(end) || !notServed.MatchString(err.Error()) {
			return err
		}
	}
}

var notServed = regexp.MustCompile(`404|no kind|not found|does not serve`)

// definition is the document of a module's file that defines a resource.
func definition(t *testing.T, module, file, resource string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module).Output()
	if err != nil {
		t.Fatalf("go mod download %s: %v\n%s", module, err, out)
	}
	var downloaded struct{ Dir, Version string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(downloaded.Dir, filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range separator.Split(string(text), -1) {
		if strings.Contains(document, "\n  name: "+resource+"\n") {
			t.Logf("%s of %s %s", resource, module, downloaded.Version)
			return document
		}
	}
	t.Fatalf("%s of %s %s does not define %s", file, module, downloaded.Version, resource)
	return ""
}
