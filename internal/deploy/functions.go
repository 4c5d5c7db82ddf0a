package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"
)

// functions are those of Helm that the templates use. Numbers are float64, as YAML
// has them.
var functions = map[string]func(args []any) (any, error){
	"and": func(args []any) (any, error) { return choose(args, false) },
	"or":  func(args []any) (any, error) { return choose(args, true) },
	"not": func(args []any) (any, error) { return !truth(args[0]), nil },
	"eq":  func(args []any) (any, error) { return args[0] == args[1], nil },
	"gt": func(args []any) (any, error) {
		a, b, err := numbers(args)
		return a > b, err
	},
	"add": func(args []any) (any, error) { return calculate(args, func(a, b float64) float64 { return a + b }) },
	"mul": func(args []any) (any, error) { return calculate(args, func(a, b float64) float64 { return a * b }) },
	"replace": func(args []any) (any, error) {
		return strings.ReplaceAll(text(args[2]), text(args[0]), text(args[1])), nil
	},
	"int":            func(args []any) (any, error) { return args[0], nil }, // for Helm, which has several kinds of numbers
	"default":        func(args []any) (any, error) { return choose([]any{args[1], args[0]}, true) },
	"printf":         func(args []any) (any, error) { return fmt.Sprintf(text(args[0]), args[1:]...), nil },
	"index":          index,
	"nindent":        nindent,
	"toYaml":         toYAML,
	"fromYaml":       fromYAML,
	"deepEqual":      func(args []any) (any, error) { return reflect.DeepEqual(args[0], args[1]), nil },
	"mergeOverwrite": mergeOverwrite,
	"fail":           func(args []any) (any, error) { return nil, errors.New(text(args[0])) },
	"sha256sum": func(args []any) (any, error) {
		sum := sha256.Sum256([]byte(text(args[0])))
		return hex.EncodeToString(sum[:]), nil
	},
}

func numbers(args []any) (a, b float64, err error) {
	a, aOK := args[0].(float64)
	b, bOK := args[1].(float64)
	if !aOK || !bOK {
		return 0, 0, fmt.Errorf("%v and %v are not both numbers", args[0], args[1])
	}
	return a, b, nil
}

func calculate(args []any, by func(a, b float64) float64) (any, error) {
	a, b, err := numbers(args)
	return by(a, b), err
}

// choose is the first value whose truth is want, else the last.
func choose(args []any, want bool) (any, error) {
	for _, a := range args {
		if truth(a) == want {
			return a, nil
		}
	}
	return args[len(args)-1], nil
}

func index(args []any) (any, error) {
	items, ok := args[0].([]any)
	i, isNumber := args[1].(float64)
	if !ok || !isNumber || int(i) >= len(items) {
		return nil, fmt.Errorf("%v has no element %v", args[0], args[1])
	}
	return items[int(i)], nil
}

func nindent(args []any) (any, error) {
	n, ok := args[0].(float64)
	if !ok {
		return nil, fmt.Errorf("%v is no number of spaces", args[0])
	}
	pad := "\n" + strings.Repeat(" ", int(n))
	return pad + strings.ReplaceAll(text(args[1]), "\n", pad), nil
}

func toYAML(args []any) (any, error) {
	b, err := yaml.Marshal(args[0])
	if err != nil {
		return nil, err
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

func fromYAML(args []any) (any, error) {
	m := map[string]any{}
	err := yaml.Unmarshal([]byte(text(args[0])), &m)
	return m, err
}

// mergeOverwrite changes the first map, as Helm's does.
func mergeOverwrite(args []any) (any, error) {
	into, ok := args[0].(map[string]any)
	from, isMap := args[1].(map[string]any)
	if !ok || !isMap {
		return nil, fmt.Errorf("%v and %v are not both maps", args[0], args[1])
	}
	maps.Copy(into, from)
	return into, nil
}
