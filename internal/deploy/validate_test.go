package deploy

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string // the beginning of each line of the error, "" = valid
	}{
		"all defaults":            {func(o *Options) {}, ""},
		"no namespace":            {func(o *Options) { o.Namespace = "" }, "--namespace"},
		"a namespace with a dot":  {func(o *Options) { o.Namespace = "a.b" }, "--namespace"},
		"no pool":                 {func(o *Options) { o.Pool = "" }, "--pool"},
		"a pool with capitals":    {func(o *Options) { o.Pool = "Chat" }, "--pool"},
		"a pool of 64 letters":    {func(o *Options) { o.Pool, o.Name = strings.Repeat("a", 64), "a" }, "--pool"},
		"a pool of 63 letters":    {func(o *Options) { o.Pool, o.Name = strings.Repeat("a", 63), "a" }, ""},
		"no room for -epp-peers":  {func(o *Options) { o.Pool = strings.Repeat("a", 54) }, "--name"},
		"a Service named 7b-epp":  {func(o *Options) { o.Pool = "7b" }, "--name"},
		"a pool named 7b":         {func(o *Options) { o.Pool, o.Name = "7b", "seven-epp" }, ""},
		"no selector":             {func(o *Options) { o.Selector = nil }, "--selector"},
		"no selector, no pool":    {func(o *Options) { o.Selector, o.Skip = nil, []string{"inferencepool"} }, ""},
		"no selector, reports":    {func(o *Options) { o.Selector, o.Skip, o.ReportTokenSecret = nil, []string{"InferencePool"}, "s" }, "--selector"},
		"a label with a space":    {func(o *Options) { o.Selector = map[string]string{"a b": "c"} }, "--selector"},
		"a label's value /":       {func(o *Options) { o.Selector = map[string]string{"a": "/"} }, "--selector"},
		"a label with a prefix":   {func(o *Options) { o.Selector = map[string]string{"example.com/a": "b_C.d"} }, ""},
		"a label with two":        {func(o *Options) { o.Selector = map[string]string{"example.com/a/b": "c"} }, "--selector"},
		"a label with no value":   {func(o *Options) { o.Selector = map[string]string{"app": ""} }, ""},
		"the picker's own label":  {func(o *Options) { o.Selector = map[string]string{"eppctl.dev/pool": "chat"} }, "--selector"},
		"no port":                 {func(o *Options) { o.TargetPorts = nil }, "--target-port"},
		"nine ports":              {func(o *Options) { o.TargetPorts = []int{1, 2, 3, 4, 5, 6, 7, 8, 9} }, "--target-port"},
		"a port twice":            {func(o *Options) { o.TargetPorts = []int{8000, 8000} }, "--target-port"},
		"port 65536":              {func(o *Options) { o.TargetPorts = []int{65536} }, "--target-port"},
		"no replica":              {func(o *Options) { o.Replicas = 0 }, "--replicas"},
		"an unknown preset":       {func(o *Options) { o.Preset = "fast" }, "--preset"},
		"an image with a digest":  {func(o *Options) { o.Image = "registry:5000/a/b:1@sha256:" + strings.Repeat("0", 64) }, ""},
		"an image with a newline": {func(o *Options) { o.Image = "a\nb" }, "--image"},
		"an image of a registry":  {func(o *Options) { o.Image = "Registry.example:5000/team/epp_x--y:V1" }, ""},
		"an image with capitals":  {func(o *Options) { o.Image = "team/Eppctl:1" }, "--image"},
		"an image without a name": {func(o *Options) { o.Image = "registry.example/" }, "--image"},
		"an image with //":        {func(o *Options) { o.Image = "team//eppctl" }, "--image"},
		"no processors":           {func(o *Options) { o.CPU = "0m" }, "--cpu"},
		"half a processor":        {func(o *Options) { o.CPU = "0.5" }, ""},
		"processors in Mi":        {func(o *Options) { o.CPU = "1Mi" }, "--cpu"},
		"memory in MiB":           {func(o *Options) { o.Memory = "512MiB" }, "--memory"},
		"too little memory":       {func(o *Options) { o.Memory = "255Mi" }, "--memory"},
		"memory in G":             {func(o *Options) { o.Memory = "4G" }, "--memory"},
		"the least memory":        {func(o *Options) { o.Memory = "256Mi" }, ""},
		"a thousandth processor":  {func(o *Options) { o.CPU = "0.001" }, ""},
		"no selector, egress":     {func(o *Options) { o.Selector, o.Skip, o.RestrictEgress = nil, []string{"InferencePool"}, true }, "--selector"},
		"memory without end":      {func(o *Options) { o.Memory = "999999999999999Ti" }, "--memory"},
		"a Secret with _":         {func(o *Options) { o.ReportTokenSecret = "a_b" }, "--report-token-secret"},
		"a Secret for TLS with _": {func(o *Options) { o.TLSSecret = "a_b" }, "--tls-secret"},
		"no TLS for its Secret":   {func(o *Options) { o.TLSSecret, o.Plaintext = "tls", true }, "--tls-secret"},
		"TLS for reports alone":   {func(o *Options) { o.TLSSecret, o.Plaintext, o.ReportTokenSecret = "tls", true, "s" }, ""},
		"a Gateway elsewhere":     {func(o *Options) { o.Gateway = "gateways/public" }, ""},
		"a Gateway nowhere":       {func(o *Options) { o.Gateway = "/public" }, "--gateway"},
		"a Gateway made away":     {func(o *Options) { o.Gateway, o.GatewayClass = "gateways/public", "istio" }, "--gateway"},
		"an unknown class":        {func(o *Options) { o.GatewayClass = "nginx" }, "--gateway-class"},
		"kgateway without TLS":    {func(o *Options) { o.GatewayClass, o.Plaintext = "kgateway", true }, "--plaintext"},
		"an unknown monitor":      {func(o *Options) { o.Monitor = "node" }, "--monitor"},
		"Prometheus nowhere":      {func(o *Options) { o.PrometheusNamespace = "" }, "--prometheus-namespace"},
		"an unknown kind":         {func(o *Options) { o.Skip = []string{"Ingress"} }, "--skip"},
		"two mistakes":            {func(o *Options) { o.Replicas, o.Monitor = 101, "" }, "--replicas\n--monitor"},
	} {
		t.Run(name, func(t *testing.T) {
			var flags []string
			if err := chat(c.change).Validate(); err != nil {
				for line := range strings.Lines(err.Error()) {
					flag, _, _ := strings.Cut(line, ":")
					flags = append(flags, flag)
				}
			}
			if got := strings.Join(flags, "\n"); got != c.want {
				t.Errorf("complaints about %q, want %q", got, c.want)
			}
		})
	}
}

func TestImage(t *testing.T) {
	for version, tag := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3-rc.1",
		"dev": "latest", "": "latest", "v0.0.0-20261130140000-0123456789ab": "latest", "v1.2.3+dirty": "latest",
	} {
		if got, want := Image(version), "ghcr.io/eppctl/eppctl:"+tag; got != want {
			t.Errorf("%q: %s, want %s", version, got, want)
		}
	}
}
