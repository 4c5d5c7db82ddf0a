package kube

import (
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// One of client-go's handlers pauses after errors, from the last one's time on: it
	// would take a bubble's fake time for years before that.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}
