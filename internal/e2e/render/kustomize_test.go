package render

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var separator = regexp.MustCompile(`(?m)^---\n`)

// objects are the documents of a YAML text by kind and name.
func objects(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for _, document := range separator.Split(text, -1) {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		metadata, _ := object["metadata"].(map[string]any)
		key, _ := object["kind"].(string)
		name, _ := metadata["name"].(string)
		found[key+" "+name] = object
	}
	return found
}

func TestKustomizeBuildsTheManifests(t *testing.T) {
	for _, i := range installs {
		t.Run(i.name, func(t *testing.T) {
			want := objects(t, manifests(t, "inference", i))
			got := objects(t, built(t, files(t, "inference", i, "kustomize")))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("manifests differ (-printed +Kustomize's):\n%s", diff)
			}
		})
	}
}

// An overlay that moves the base to another namespace moves all of it.
func TestKustomizeMovesTheBase(t *testing.T) {
	base := files(t, "inference", installs[1], "kustomize")
	overlay := filepath.Join(filepath.Dir(base), "overlay")
	if err := os.Mkdir(overlay, 0o755); err != nil {
		t.Fatal(err)
	}
	text := "namespace: elsewhere\nresources: [../kustomize]\n"
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	want := objects(t, manifests(t, "elsewhere", installs[1]))
	if diff := cmp.Diff(want, objects(t, built(t, overlay))); diff != "" {
		t.Errorf("manifests differ (-printed for the namespace +moved there):\n%s", diff)
	}
}

// built is what `kustomize build` prints.
func built(t *testing.T, dir string) string {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
