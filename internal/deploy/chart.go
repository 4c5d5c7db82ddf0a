package deploy

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed all:chart
var chart embed.FS

// order is the one in which objects are written, which is one to apply them in.
var order = []string{
	"serviceaccount", "role", "rolebinding", "clusterrole", "clusterrolebinding", "configmap",
	"service", "service-peers", "deployment", "poddisruptionbudget", "networkpolicy",
	"inferencepool", "gatewayclass", "gateway", "destinationrule", "healthcheckpolicy", "gcpbackendpolicy", "httproute",
	"servicemonitor", "podmonitor",
}

// definitions is the file with what templates share.
const definitions = "_names.tpl"

// File is one to write: its path, with slashes, and what is in it.
type File struct{ Name, Text string }

// notes is the file with what Helm says after an install.
const notes = "NOTES.txt"

// template is the text of one of the chart's templates.
func template(name string) string { return chartFile(path.Join("templates", name)) }

// chartFile is the text of one of the chart's files.
func chartFile(name string) string {
	b, err := chart.ReadFile(path.Join("chart", name))
	if err != nil {
		panic(err) // it is embedded under this name, or no test has passed
	}
	return string(b)
}

var kindLine = regexp.MustCompile(`(?m)^kind: (\w+)$`)

// kind is the one of a template's object.
func kind(text string) string { return kindLine.FindStringSubmatch(text)[1] }

// Kinds are those of all objects that there can be.
func Kinds() []string {
	var kinds []string
	for _, name := range order {
		if k := kind(template(name + ".yaml")); !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// Manifests are the objects, each in a file of its own. The options must be valid.
func (o *Options) Manifests() ([]File, error) {
	templates := map[string]string{definitions: template(definitions)}
	for _, name := range order {
		templates[name+".yaml"] = template(name + ".yaml")
	}
	in, err := parseTemplates(templates)
	if err != nil {
		return nil, err
	}
	data, err := o.data()
	if err != nil {
		return nil, err
	}
	var files []File
	for _, name := range order {
		name += ".yaml"
		text, err := in.render(name, data)
		if err != nil {
			return nil, err
		}
		if text = strings.TrimLeft(text, "\n"); text != "" && o.keeps(kind(text)) {
			files = append(files, File{name, text})
		}
	}
	if len(files) == 0 {
		return nil, errors.New("--only and --skip leave nothing")
	}
	return files, nil
}

// Stream joins manifests as kubectl reads them.
func Stream(files []File) string {
	texts := make([]string, len(files))
	for i, f := range files {
		texts[i] = f.Text
	}
	return strings.Join(texts, "---\n")
}

// Kustomize are the manifests as a base of Kustomize.
func (o *Options) Kustomize() ([]File, error) {
	files, err := o.Manifests()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n")
	for _, f := range files {
		fmt.Fprintf(&b, "- %s\n", f.Name)
	}
	return append(files, File{"kustomization.yaml", b.String()}), nil
}

// release matches the version of a release, as Helm takes it too.
var release = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$`)

// chartName is the chart's, and that of the pods' label.
const chartName = "eppctl"

// Helm is a chart whose values are the options. The namespace is the release's.
func (o *Options) Helm() ([]File, error) {
	values, err := o.valuesFile()
	if err != nil {
		return nil, err
	}
	schema, err := o.schemaFile()
	if err != nil {
		return nil, err
	}
	readme, err := o.readme()
	if err != nil {
		return nil, err
	}
	version := strings.TrimPrefix(o.Version, "v")
	if !release.MatchString(version) {
		version = "0.0.0"
	}
	files := []File{
		{"Chart.yaml", strings.ReplaceAll(chartFile("Chart.yaml"), "VERSION", version)},
		{"README.md", readme},
		{"values.yaml", values},
		{"values.schema.json", schema},
		{path.Join("templates", definitions), template(definitions)},
		{path.Join("templates", notes), template(notes)},
	}
	for _, name := range order {
		name += ".yaml"
		if text := template(name); o.keeps(kind(text)) {
			files = append(files, File{path.Join("templates", name), text})
		}
	}
	return files, nil
}

// readme is the chart's, with a table of its values.
func (o *Options) readme() (string, error) {
	var table strings.Builder
	for _, v := range o.values() {
		b, err := json.Marshal(v.value)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&table, "| `%s` | `%s` | %s |\n", v.name, b, strings.ReplaceAll(v.comment, "\n", " "))
	}
	return strings.NewReplacer("POOL", o.Pool, "NAMESPACE", o.Namespace, "VALUES\n", table.String()).Replace(chartFile("README.md")), nil
}
