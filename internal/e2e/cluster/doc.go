// Package cluster is a Kubernetes cluster for tests: the real API server on a real
// etcd, and a stand-in for the kubelet.
//
// The one idea: what a program sees of Kubernetes is the API server, so that one is
// real, with its schemas, its RBAC and its watches, and all behind it is played by
// the test. Pods are objects whose addresses are servers of the test on 127.0.0.x;
// the kubelet serves port-forwards to the addresses and logs with the lines that the
// test gives it.
//
// [Start] shares one pair of servers among the tests of a binary, each of which has a
// namespace of its own; [StartOwn] is for tests that hurt their servers. TestMain
// calls [Stop] at the end. The servers are found by EPPCTL_E2E_KUBE, a directory
// that `.ci/e2e kube` builds. Without it the test is skipped, in CI it fails.
//
// There is no scheduler, no controller and no garbage collection: Deployments make no
// pods, and deleted namespaces stay.
package cluster
