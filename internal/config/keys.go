package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eppctl/eppctl/score/nearest"
)

// checkKeys compares the document's keys with the fields of the given type, returns
// an error for each that does not exist or stands twice, and notes the lines of the
// others. Whether a weight exists is seen later, see [Config.EngineWeights].
func checkKeys(doc *yaml.Node, into reflect.Type, from origin) error {
	root := doc
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	w := walker{from: from}
	w.walk(root, into, "")
	return few(w.problems)
}

// mostProblems bounds what is said of one file.
const mostProblems = 20

// few joins the first errors, and says that there are more.
func few(problems []error) error {
	if len(problems) > mostProblems {
		problems = append(problems[:mostProblems:mostProblems], errors.New("there is more that is wrong"))
	}
	return errors.Join(problems...)
}

// walker compares a document with the type that it is decoded into.
type walker struct {
	from     origin
	problems []error
}

func (w *walker) bad(n *yaml.Node, format string, args ...any) {
	w.problems = append(w.problems, fmt.Errorf("%s%s", w.from.line(n.Line), fmt.Sprintf(format, args...)))
}

func (w *walker) walk(n *yaml.Node, t reflect.Type, path string) {
	switch kind := t.Kind(); {
	case n.Kind == yaml.AliasNode:
		w.bad(n, "YAML aliases are not supported")
	case kind == reflect.Int && n.ShortTag() == "!!float": // the decoder would cut it
		w.bad(n, "%s must be a whole number, got %s", path, n.Value)
	case n.Kind == yaml.SequenceNode && kind == reflect.Slice:
		for i, item := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			w.from.lines[at] = item.Line
			w.walk(item, t.Elem(), at)
		}
	case n.Kind == yaml.MappingNode && kind == reflect.Struct:
		w.fields(n, t, path)
	case n.Kind == yaml.MappingNode && kind == reflect.Map:
		w.entries(n, t, path)
	case kind == reflect.Struct && n.ShortTag() != "!!null":
		where := path
		if where == "" {
			where = "the file"
		}
		w.bad(n, "%s must be a mapping of keys to values", where)
	}
}

// fields checks the keys of a mapping that becomes a struct.
func (w *walker) fields(n *yaml.Node, t reflect.Type, path string) {
	types := map[string]reflect.Type{}
	var names []string
	for f := range t.Fields() {
		if !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		types[name] = f.Type
		names = append(names, name)
	}
	w.keys(n, path, func(key, value *yaml.Node, at string) {
		if ft, ok := types[key.Value]; ok {
			w.walk(value, ft, at)
			return
		}
		w.bad(key, "unknown key %s: did you mean %s?", at, nearest.Name(key.Value, names))
	})
}

// entries checks a mapping of names to numbers.
func (w *walker) entries(n *yaml.Node, t reflect.Type, path string) {
	w.keys(n, path, func(key, value *yaml.Node, at string) {
		switch {
		case key.Value == "<<":
			w.bad(key, "%s: YAML merges are not supported", path)
		case value.ShortTag() == "!!null": // the decoder would make it 0
			w.bad(key, "%s has no value", at)
		default:
			w.walk(value, t.Elem(), at)
		}
	})
}

// keys visits the keys of a mapping, each once, and notes their lines. A key
// without a value is as good as not there.
func (w *walker) keys(n *yaml.Node, path string, visit func(key, value *yaml.Node, at string)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content) && len(w.problems) <= mostProblems; i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		if line, twice := seen[key.Value]; twice {
			w.bad(key, "%s stands already in line %d", at, line)
			continue
		}
		seen[key.Value] = key.Line
		if value.ShortTag() != "!!null" {
			w.from.lines[at] = key.Line
		}
		visit(key, value, at)
	}
}
