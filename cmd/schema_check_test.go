package cmd

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// schemaChecker checks values by a JSON Schema, of which it knows what ours are made
// of. It is stricter than the schema in one point: a field that the schema does not
// name is wrong, although readers should let it pass.
type schemaChecker struct{ root object }

// keywords are those that it knows; the first few say nothing of a value.
var keywords = strings.Fields("$schema $defs title description type properties required additionalProperties items enum const anyOf $ref minimum format")

func (c *schemaChecker) check(value any) []string { return c.at("", c.root, value) }

func (c *schemaChecker) at(path string, schema object, value any) (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("%s: ", strings.TrimPrefix(path, "."))+fmt.Sprintf(format, args...))
	}
	for keyword := range schema {
		if !slices.Contains(keywords, keyword) {
			say("the schema has %q, which the test does not know", keyword)
		}
	}
	if ref, ok := schema["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/$defs/")
		return append(wrong, c.at(path, c.root["$defs"].(object)[name].(object), value)...)
	}
	if one, ok := schema["anyOf"].([]any); ok {
		return append(wrong, c.anyOf(path, one, value)...)
	}
	if want, ok := schema["const"]; ok && want != value {
		say("is %v, not %v", value, want)
	}
	if values, ok := schema["enum"].([]any); ok && !slices.Contains(values, value) {
		say("is %v, none of %v", value, values)
	}
	if want := typesOf(schema["type"]); len(want) > 0 && !slices.ContainsFunc(want, func(t string) bool { return isOfType(value, t) }) {
		say("is %T, not %v", value, want)
		return wrong
	}
	if least, ok := schema["minimum"].(float64); ok && value != nil && value.(float64) < least {
		say("is %v, below %v", value, least)
	}
	if text, ok := value.(string); ok && schema["format"] == "date-time" {
		if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
			say("%v", err)
		}
	}
	return append(wrong, c.below(path, schema, value)...)
}

// below checks the parts of an object or an array.
func (c *schemaChecker) below(path string, schema object, value any) (wrong []string) {
	switch value := value.(type) {
	case []any:
		for i, one := range value {
			wrong = append(wrong, c.at(fmt.Sprintf("%s[%d]", path, i), schema["items"].(object), one)...)
		}
	case object:
		properties, _ := schema["properties"].(object)
		if required, ok := schema["required"].([]any); ok {
			for _, name := range required {
				if _, there := value[name.(string)]; !there {
					wrong = append(wrong, fmt.Sprintf("%s.%s: is not there", path, name))
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			of, known := properties[name].(object)
			if !known {
				of, known = schema["additionalProperties"].(object)
			}
			if !known {
				wrong = append(wrong, fmt.Sprintf("%s.%s: is not in the schema", path, name))
				continue
			}
			wrong = append(wrong, c.at(path+"."+name, of, value[name])...)
		}
	}
	return wrong
}

func (c *schemaChecker) anyOf(path string, schemas []any, value any) (wrong []string) {
	for _, one := range schemas {
		found := c.at(path, one.(object), value)
		if len(found) == 0 {
			return nil
		}
		wrong = append(wrong, found...)
	}
	return wrong
}

func typesOf(of any) []string {
	switch of := of.(type) {
	case string:
		return []string{of}
	case []any:
		var out []string
		for _, one := range of {
			out = append(out, one.(string))
		}
		return out
	}
	return nil
}

func isOfType(value any, of string) bool {
	switch value := value.(type) {
	case nil:
		return of == "null"
	case string:
		return of == "string"
	case bool:
		return of == "boolean"
	case float64:
		return of == "number" || of == "integer" && value == math.Trunc(value)
	case []any:
		return of == "array"
	case object:
		return of == "object"
	}
	return false
}

// A checker that finds nothing proves nothing: each of these changes is found.
func TestSchemaCheckFindsWhatIsWrong(t *testing.T) {
	for name, change := range map[string]func(object){
		"not there":     func(d object) { delete(d, "decisionID") },
		"unknown":       func(d object) { d["decisionId"] = "x" },
		"another type":  func(d object) { d["stream"] = "true" },
		"null":          func(d object) { d["model"] = nil },
		"not whole":     func(d object) { d["blocks"] = 1.5 },
		"another value": func(d object) { d["outcome"].(object)["state"] = "gone" },
		"another kind":  func(d object) { d["apiVersion"] = "eppctl/v2" },
		"no time":       func(d object) { d["time"] = "yesterday" },
		"below":         func(d object) { d["seed"] = -1.0 },
		"deep": func(d object) {
			d["candidates"].([]any)[0].(object)["factors"].([]any)[0].(object)["input"].(object)["depth"] = 1.0
		},
		"null in a list": func(d object) { d["candidates"] = []any{nil} },
	} {
		var d object
		if err := json.Unmarshal([]byte(document(t, "explain/testdata/clear-win.json")), &d); err != nil {
			t.Fatal(err)
		}
		schema := readSchema(t, "Explanation")
		if wrong := schema.check(d); len(wrong) > 0 {
			t.Fatal(wrong)
		}
		change(d)
		if wrong := schema.check(d); len(wrong) == 0 {
			t.Errorf("%s: nothing found", name)
		}
	}
}
