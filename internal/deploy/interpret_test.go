package deploy

import "testing"

// What is not interpreted is refused, so that it can't come out wrong.
func TestInterpret(t *testing.T) {
	data := map[string]any{"Values": map[string]any{
		"empty": "", "name": "chat", "two": 2.0, "list": []any{8000.0, "b"}, "map": map[string]any{"b": "1", "a": true}, "on": true,
	}}
	for name, c := range map[string]struct {
		template, want string // want "" = an error
	}{
		"a value":              {`{{ .Values.name }}`, "chat"},
		"a number":             {`{{ .Values.two }}`, "2"},
		"white space":          {"a\n  {{- if .Values.on }}\n  b\n{{- end }}", "a\n  b"},
		"else":                 {`{{ if .Values.empty }}a{{ else if eq .Values.name "chat" }}b{{ else }}c{{ end }}`, "b"},
		"range":                {`{{ range .Values.list }}[{{ . }}]{{ end }}`, "[8000][b]"},
		"a map":                {`x:{{ toYaml .Values.map | nindent 2 }}`, "x:\n  a: true\n  b: \"1\""},
		"default":              {`{{ default (printf "%s-epp" .Values.name) .Values.empty }}`, "chat-epp"},
		"not the default":      {`{{ default "a" .Values.name }}`, "chat"},
		"and, or, not, gt":     {`{{ if and (or .Values.empty .Values.on) (not .Values.empty) (gt (int .Values.two) 1) }}yes{{ end }}`, "yes"},
		"index":                {`{{ index .Values.list 1 }}`, "b"},
		"a definition":         {`{{ define "d" }}{{ .Values.name }}!{{ end }}{{ include "d" . | toYaml }}`, "chat!"},
		"a digest":             {`{{ sha256sum "" }}`, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		"a map over another":   {`{{ toYaml (mergeOverwrite (fromYaml "{a: 1, b: 1}") (fromYaml "b: 2")) }}`, "a: 1\nb: 2"},
		"equal maps":           {`{{ if deepEqual (fromYaml "{a: b, c: d}") (fromYaml "{c: d, a: b}") }}yes{{ end }}`, "yes"},
		"maps that differ":     {`{{ if not (deepEqual (fromYaml "a: b") (fromYaml "a: ''")) }}yes{{ end }}`, "yes"},
		"a map over a text":    {`{{ mergeOverwrite .Values.name (fromYaml "b: 2") }}`, ""},
		"what is no YAML":      {`{{ fromYaml "a: [" }}`, ""},
		"fail":                 {`{{ if .Values.on }}{{ fail "no" }}{{ end }}`, ""},
		"a value that is away": {`{{ .Values.other }}`, ""},
		"a field of a text":    {`{{ .Values.name.first }}`, ""},
		"a variable":           {`{{ $x := .Values.name }}{{ $x }}`, ""},
		"with":                 {`{{ with .Values }}{{ .name }}{{ end }}`, ""},
		"an unknown function":  {`{{ upper .Values.name }}`, ""},
		"an unknown template":  {`{{ include "other" . }}`, ""},
		"range over a text":    {`{{ range .Values.name }}{{ . }}{{ end }}`, ""},
		"more than a number":   {`{{ gt .Values.name 1 }}`, ""},
		"out of the list":      {`{{ index .Values.list 2 }}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := parseTemplates(map[string]string{"t": c.template})
			got := ""
			if err == nil {
				got, err = in.render("t", data)
			}
			if got != c.want && err == nil || (err != nil) != (c.want == "") {
				t.Errorf("%q, error %v; want %q", got, err, c.want)
			}
		})
	}
}
