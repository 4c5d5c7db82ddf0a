package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// checkKeys compares the document's keys with the fields of the given value, and
// returns an error for each that does not exist or stands twice.
func checkKeys(doc *yaml.Node, into any) error {
	root := doc
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	var problems []error
	walk(root, reflect.TypeOf(into), "", func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(format, args...))
	})
	return errors.Join(problems...)
}

func walk(n *yaml.Node, t reflect.Type, path string, bad func(string, ...any)) {
	switch {
	case n.Kind == yaml.AliasNode:
		bad("line %d: YAML aliases are not supported", n.Line)
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, item := range n.Content {
			walk(item, t.Elem(), path, bad)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		walkFields(n, t, path, bad)
	case t.Kind() == reflect.Struct && n.Tag != "!!null":
		where := path
		if where == "" {
			where = "the file"
		}
		bad("line %d: %s must be a mapping of keys to values", n.Line, where)
	}
}

func walkFields(n *yaml.Node, t reflect.Type, path string, bad func(string, ...any)) {
	fields := map[string]reflect.Type{}
	var names []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		fields[name] = f.Type
		names = append(names, name)
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if line, twice := seen[key.Value]; twice {
			bad("line %d: %s%s stands already in line %d", key.Line, path, key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		if ft, ok := fields[key.Value]; ok {
			walk(value, ft, path+key.Value+".", bad)
			continue
		}
		bad("line %d: unknown key %s%s: did you mean %s?", key.Line, path, key.Value, Nearest(key.Value, names))
	}
}

// has reports whether the document has a top-level key.
func has(doc *yaml.Node, key string) bool {
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(doc.Content[0].Content); i += 2 {
		if doc.Content[0].Content[i].Value == key {
			return true
		}
	}
	return false
}

// Nearest is the name with the smallest edit distance to word, ignoring case.
func Nearest(word string, names []string) string {
	best, distance := "", 1<<30
	for _, name := range names {
		if d := edits(strings.ToLower(word), strings.ToLower(name)); d < distance {
			best, distance = name, d
		}
	}
	return best
}

// edits is the Levenshtein distance in bytes; words are cut to 64.
func edits(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
