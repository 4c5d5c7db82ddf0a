package deploy

import (
	"reflect"
	"strings"

	"github.com/eppctl/eppctl/internal/config"
	"github.com/eppctl/eppctl/score"
)

// settings are those of the picker's file: all that package config reads, so that a
// wrong key is seen before a pod starts. Most bounds are seen when it does.
func settings() schema {
	s := of(reflect.TypeFor[config.Config]())
	s["properties"].(schema)["preset"] = enum(score.PresetNames()...)
	return s
}

// of is the schema of what is decoded into a type; its keys are the yaml tags.
func of(t reflect.Type) schema {
	switch t.Kind() {
	case reflect.Struct:
		properties := schema{}
		for f := range t.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); f.IsExported() {
				properties[name] = of(f.Type)
			}
		}
		return schema{"type": "object", "properties": properties, "additionalProperties": false}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": of(t.Elem())}
	case reflect.Slice:
		return list(of(t.Elem()))
	case reflect.Bool:
		return boolean()
	case reflect.Int:
		return schema{"type": "integer"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.String:
		return schema{"type": "string"}
	}
	panic(t.String() + " has no schema") // a test builds it
}
