package cluster

import (
	"context"
	"embed"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

//go:embed testdata/crds
var crdFiles embed.FS

// A CRD is a custom resource that the servers can have, by its full name.
type CRD string

// The resources of Gateway API Inference Extension, as it publishes them.
const (
	PoolV1       CRD = "inferencepools.inference.networking.k8s.io"
	PoolV1Alpha2 CRD = "inferencepools.inference.networking.x-k8s.io"
	Model        CRD = "inferencemodels.inference.networking.x-k8s.io"
	Rewrite      CRD = "inferencemodelrewrites.inference.networking.x-k8s.io"
	// RewriteLLMD is Rewrite in the group to which llm-d moved it: its schema is taken to
	// be the same.
	RewriteLLMD CRD = "inferencemodelrewrites.llm-d.ai"
)

// CRDs are all of them.
var CRDs = []CRD{PoolV1, PoolV1Alpha2, Model, Rewrite, RewriteLLMD}

// definition is the resource's definition, YAML.
func (c CRD) definition() (string, error) {
	if c == RewriteLLMD {
		text, err := Rewrite.definition()
		return strings.ReplaceAll(text, "inference.networking.x-k8s.io", "llm-d.ai"), err
	}
	plural, group, _ := strings.Cut(string(c), ".")
	text, err := crdFiles.ReadFile("testdata/crds/" + group + "_" + plural + ".yaml")
	return string(text), err
}

// install applies definitions, and waits until the API server has the resources. The
// first object of each takes it two seconds to create.
func (s *servers) install(crds []CRD) error {
	var refs []Ref
	for _, crd := range crds {
		text, err := crd.definition()
		if err != nil {
			return err
		}
		var definition struct {
			Spec struct {
				Group    string                  `json:"group"`
				Names    struct{ Kind string }   `json:"names"`
				Versions []struct{ Name string } `json:"versions"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal([]byte(text), &definition); err != nil {
			return err
		}
		if err := s.apply("", text, forced); err != nil {
			return err
		}
		spec := &definition.Spec
		refs = append(refs, Ref{APIVersion: spec.Group + "/" + spec.Versions[0].Name, Kind: spec.Names.Kind})
	}
	for _, ref := range refs {
		if err := s.served(ref); err != nil {
			return err
		}
	}
	return nil
}

// served waits until the API server has a resource.
func (s *servers) served(ref Ref) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		path, err := s.path("default", ref)
		if err == nil {
			_, err = s.request(ctx, http.MethodGet, path, "", nil)
		}
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s is not served after %s: %w", ref.Kind, patience, err)
		}
	}
}
