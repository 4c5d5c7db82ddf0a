// Package proctest starts the processes of tests so that they don't outlive them.
//
// The one idea: Linux ends a process when the thread that started it ends, whatever
// becomes of the test. Elsewhere a test that is killed leaves its processes behind.
//
// It does not end anything itself. Only tests import it.
package proctest
