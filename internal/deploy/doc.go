// Package deploy writes what installs a picker in a cluster: the manifests of one
// pool's picker, as YAML, as a base for Kustomize, or as a Helm chart.
//
// The one idea: there is one source, the templates of the Helm chart, and all three
// come out of it. The chart is these files as they are, with the options as its
// values; the manifests are the chart, rendered here with the same values. The part
// of the template language that they use is small, and interpreted by a few lines on
// top of the standard library's parser: text/template itself would keep the linker
// from dropping unused methods, and double the size of the program.
//
//	o := deploy.Default()
//	o.Namespace, o.Pool, o.Selector = "inference", "chat", map[string]string{"app": "vllm"}
//	if err := o.Validate(); err != nil { … }
//	files, err := o.Manifests() // or o.Kustomize(), o.Helm()
//
// It speaks to no cluster, and knows nothing of what is installed there.
package deploy
