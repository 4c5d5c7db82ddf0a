package cmd

import (
	"strings"
	"testing"

	"github.com/eppctl/eppctl/internal/cli"
)

func TestPluginOfKubectl(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/bin/eppctl": "", "kubectl-": "", "/home/u/.krew/bin/kubectl-epp": "kubectl epp", `kubectl-epp.exe`: "kubectl epp", "kubectl-inference_epp": "kubectl inference-epp",
	} {
		var p program
		if err := calledAs(path)(&p); err != nil || p.plugin != want {
			t.Errorf("called as %s: %q, %v, want %q", path, p.plugin, err, want)
		}
	}
	tests := []struct {
		args []string
		want []string
	}{
		{[]string{"explain", "--help"}, []string{"kubectl epp explain REQUEST", "  kubectl epp explain latest", "kubectl epp decisions "}},
		{[]string{"help"}, []string{"  kubectl epp COMMAND", "kubectl epp serve --sim 4"}},
		{[]string{"help", "environment"}, []string{"kubectl epp explain:"}},
		{[]string{"explain"}, []string{"eppctl: no request ID", "'kubectl epp explain latest'"}},
		{[]string{"decisions", "-f", "/does/not/exist"}, []string{"'kubectl epp decisions -o jsonl > FILE'"}},
		{[]string{"completion", "kubectl"}, []string{"#!/bin/sh\nexec kubectl epp __complete \"$@\"\n"}},
	}
	for _, test := range tests {
		s, out, errOut := cli.Test()
		run(t.Context(), s, test.args, calledAs("kubectl-epp"))
		for _, want := range test.want {
			if text := out.String() + errOut.String(); !strings.Contains(text, want) {
				t.Errorf("%v does not say %q:\n%s", test.args, want, text)
			}
		}
	}
}
