// Package e2e tests the built eppctl against real programs around it.
//
// The one idea: one request is looked at from every side that saw it. What the
// client got, what the pods got, what the picker recorded and what the proxy
// logged must tell the same story, and the ledger must be empty at the end.
//
// A test that needs a real program finds it by a variable, EPPCTL_E2E_ENVOY for
// Envoy, and is skipped without it (in CI it fails). `.ci/e2e envoy` installs the
// program and runs the tests; there is a part of the same form for each program.
//
// The tests of a cluster (TestKube…) run the picker in front of a real Kubernetes API
// server, of package cluster; in the place of Envoy they have a gateway of their own.
//
// The pods are servers of the test itself, which answer as the request asks them
// to. Those of TestProxies are simulated ones. Only TestRealEngine has a real one,
// with a model of noise: `.ci/e2e vllm` installs it, which is large, and no other run
// of the tests does.
package e2e
