// Package kube is everything that is said to a Kubernetes API server. Nothing else
// in this module knows of client-go.
//
// The one idea: a [Cluster] is a connection whose requests are few and named: each
// group of the API that is used has its own small REST client, and the objects that
// are read are cut down to the fields that count ([InferencePool], [InferenceModel],
// [InferenceModelRewrite] are ours, the rest is k8s.io/api). The typed clientset and
// the informer factories would be three times the size of the rest of the program.
//
// A [Watch] follows pools, their pods and the names of models. What is read is kept up
// to date by client-go's reflector, into stores that keep of an object what counts;
// what is known is handed out whole, as a [State] that never changes. It stands while
// the API server is away, sends more than is read, or tells what can't be so: then all
// is read anew.
//
// It does not decide anything: what a pool's pods mean is for internal/pool, what a
// model's name stands for is for internal/naming.
package kube
