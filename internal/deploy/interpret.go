package deploy

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"text/template/parse"
)

// interpreter renders templates of Helm's language, as far as this chart uses it:
// text, actions, if, range, include, and the functions of [functions]. Anything
// else is an error, and so is a value that is not there.
type interpreter struct {
	trees map[string]*parse.Tree
}

// parseTemplates reads the files of a chart; they share their definitions.
func parseTemplates(files map[string]string) (*interpreter, error) {
	in := &interpreter{trees: map[string]*parse.Tree{}}
	known := map[string]any{"include": true} // the parser wants to see something
	for name := range functions {
		known[name] = true
	}
	for name, text := range files {
		trees, err := parse.Parse(name, text, "{{", "}}", known)
		if err != nil {
			return nil, err
		}
		maps.Copy(in.trees, trees)
	}
	return in, nil
}

// render is the text of one template. data are nested map[string]any.
func (in *interpreter) render(name string, data any) (string, error) {
	tree, ok := in.trees[name]
	if !ok {
		return "", fmt.Errorf("there is no template %q", name)
	}
	var b strings.Builder
	if err := in.walk(&b, tree.Root, data); err != nil {
		return "", fmt.Errorf("template %s: %w", name, err)
	}
	return b.String(), nil
}

func (in *interpreter) walk(b *strings.Builder, node parse.Node, dot any) error {
	switch n := node.(type) {
	case *parse.ListNode:
		return in.walkAll(b, n, dot)
	case *parse.TextNode:
		b.Write(n.Text)
		return nil
	case *parse.ActionNode:
		value, err := in.pipeline(n.Pipe, dot)
		b.WriteString(text(value))
		return err
	case *parse.IfNode:
		condition, err := in.pipeline(n.Pipe, dot)
		if err != nil {
			return err
		}
		if truth(condition) {
			return in.walkAll(b, n.List, dot)
		}
		return in.walkAll(b, n.ElseList, dot)
	case *parse.RangeNode:
		return in.walkRange(b, n, dot)
	}
	return fmt.Errorf("%s is not of the part of the language that is interpreted here", node)
}

func (in *interpreter) walkAll(b *strings.Builder, list *parse.ListNode, dot any) error {
	if list == nil { // no else
		return nil
	}
	for _, n := range list.Nodes {
		if err := in.walk(b, n, dot); err != nil {
			return err
		}
	}
	return nil
}

func (in *interpreter) walkRange(b *strings.Builder, n *parse.RangeNode, dot any) error {
	value, err := in.pipeline(n.Pipe, dot)
	if err != nil {
		return err
	}
	items, ok := value.([]any)
	if !ok {
		return fmt.Errorf("range over %T", value)
	}
	for _, item := range items {
		if err := in.walkAll(b, n.List, item); err != nil {
			return err
		}
	}
	return nil
}

// pipeline is the value of a | b | c: each is the last argument of the next.
func (in *interpreter) pipeline(p *parse.PipeNode, dot any) (any, error) {
	if len(p.Decl) > 0 {
		return nil, fmt.Errorf("%s: variables are not interpreted here", p)
	}
	var value any
	for i, command := range p.Cmds {
		var args []any
		for _, arg := range command.Args {
			if identifier, ok := arg.(*parse.IdentifierNode); ok {
				args = append(args, function(identifier.Ident))
				continue
			}
			a, err := in.argument(arg, dot)
			if err != nil {
				return nil, err
			}
			args = append(args, a)
		}
		if i > 0 {
			args = append(args, value)
		}
		var err error
		if value, err = in.call(args); err != nil {
			return nil, fmt.Errorf("%s: %w", command, err)
		}
	}
	return value, nil
}

// function is the name of one.
type function string

// call applies the first of args to the others, if it is a function.
func (in *interpreter) call(args []any) (any, error) {
	name, ok := args[0].(function)
	switch {
	case !ok && len(args) == 1:
		return args[0], nil
	case !ok:
		return nil, fmt.Errorf("%v is no function", args[0])
	case name == "include":
		if len(args) != 3 {
			return nil, fmt.Errorf("include takes a name and a value")
		}
		return in.render(text(args[1]), args[2])
	}
	return functions[string(name)](args[1:])
}

func (in *interpreter) argument(node parse.Node, dot any) (any, error) {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		if n.IsInt {
			return float64(n.Int64), nil
		}
	case *parse.PipeNode:
		return in.pipeline(n, dot)
	case *parse.FieldNode:
		return field(dot, n.Ident)
	}
	return nil, fmt.Errorf("%s is not of the part of the language that is interpreted here", node)
}

func field(value any, path []string) (any, error) {
	for _, name := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf(".%s: no map has a field %s", strings.Join(path, "."), name)
		}
		if value, ok = m[name]; !ok {
			return nil, fmt.Errorf(".%s: there is no value", strings.Join(path, "."))
		}
	}
	return value, nil
}

// truth is what if makes of a value: empty is false.
func truth(value any) bool {
	switch v := value.(type) {
	case bool:
		return v
	case string:
		return v != ""
	case float64:
		return v != 0
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return value != nil
}

// text is how a value is printed.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}
