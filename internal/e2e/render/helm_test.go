package render

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// Helm's own interpreter makes of the chart, byte for byte, what the command prints.
func TestHelmRendersTheManifests(t *testing.T) {
	for _, i := range installs {
		t.Run(i.name, func(t *testing.T) {
			want := read(t, files(t, "inference", i, "yaml"))
			if diff := cmp.Diff(want, rendered(t, files(t, "inference", i, "helm"), "")); diff != "" {
				t.Errorf("manifests differ (-printed +Helm's):\n%s", diff)
			}
		})
	}
}

// A chart that is installed with the values of another is that other one, whatever it
// was made with. (Helm merges the labels of the selector: each of these has app.)
func TestHelmTakesOtherValues(t *testing.T) {
	chart := files(t, "inference", installs[0], "helm")
	for _, i := range installs[1:] {
		t.Run(i.name, func(t *testing.T) {
			want := read(t, files(t, "elsewhere", i, "yaml"))
			values := filepath.Join(files(t, "elsewhere", i, "helm"), "values.yaml")
			if diff := cmp.Diff(want, rendered(t, chart, values)); diff != "" {
				t.Errorf("manifests differ (-printed +Helm's):\n%s", diff)
			}
		})
	}
}

// rendered is what Helm would apply, by the names of the templates: into the namespace
// "inference" with the chart's own values, into "elsewhere" with those of a file.
func rendered(t *testing.T, dir, values string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for name, text := range render(t, dir, values) {
		if text = strings.TrimLeft(text, "\n"); text != "" && path.Ext(name) == ".yaml" {
			texts[path.Base(name)] = text
		}
	}
	return texts
}

// notesOf is what Helm says after an install.
func notesOf(t *testing.T, dir string) string {
	t.Helper()
	return render(t, dir, "")["eppctl/templates/NOTES.txt"]
}

func render(t *testing.T, dir, values string) map[string]string {
	t.Helper()
	chart, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := chart.Validate(); err != nil {
		t.Fatal(err)
	}
	release := chartutil.ReleaseOptions{Name: "release", Namespace: "inference", IsInstall: true}
	given := chartutil.Values{}
	if values != "" {
		release.Namespace = "elsewhere"
		text, err := os.ReadFile(values)
		if err != nil {
			t.Fatal(err)
		}
		if given, err = chartutil.ReadValues(text); err != nil {
			t.Fatal(err)
		}
	}
	all, err := chartutil.ToRenderValues(chart, given, release, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
