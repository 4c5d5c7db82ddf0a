package deploy

import (
	"encoding/json"
	"regexp"
	"strings"
)

// schema is a JSON Schema, of draft 7, which Helm reads.
type schema map[string]any

func boolean() schema { return schema{"type": "boolean"} }

func enum(values ...string) schema { return schema{"type": "string", "enum": values} }

// named is text of one of the forms that [Options.Validate] knows.
func named(form *regexp.Regexp, longest int) schema {
	return schema{"type": "string", "pattern": form.String(), "maxLength": longest}
}

// optional is the same, or empty.
func optional(form *regexp.Regexp, longest int) schema {
	return schema{"type": "string", "pattern": "^$|" + form.String(), "maxLength": longest}
}

func integer(low, high int) schema {
	return schema{"type": "integer", "minimum": low, "maximum": high}
}

func list(of schema) schema { return schema{"type": "array", "items": of} }

// anyObject is what Kubernetes checks itself.
func anyObject() schema { return schema{"type": "object"} }

func ports(least, most int) schema {
	s := list(integer(1, maxPort))
	s["minItems"], s["maxItems"], s["uniqueItems"] = least, most, true
	return s
}

// amount takes a number too: so Helm reads --set cpu=2.
func amount(form string) schema {
	return schema{"type": []string{"string", "number"}, "pattern": form, "exclusiveMinimum": 0}
}

// labels are those of a pod or an object, but for the keys that the templates write.
func labels(own ...string) schema {
	return schema{
		"type": "object", "properties": refused(own...), "additionalProperties": false,
		"patternProperties": schema{labelKey.String(): schema{"type": "string", "pattern": "^$|" + labelText.String()}},
	}
}

func annotations(own ...string) schema {
	return schema{"type": "object", "properties": refused(own...), "additionalProperties": schema{"type": "string"}}
}

// refused are keys that must not be there.
func refused(keys ...string) schema {
	s := schema{}
	for _, k := range keys {
		s[k] = false
	}
	return s
}

// selectorSchema does not see whether the picker's own pods are meant: that compares
// values, so it is done in the templates.
func (o *Options) selectorSchema() schema {
	s := labels()
	if o.keeps("InferencePool") {
		s["minProperties"] = 1
	}
	return s
}

// env refuses the variables that the Deployment sets.
func env() schema {
	return list(schema{
		"type": "object", "required": []string{"name"},
		"properties": schema{"name": schema{"type": "string", "minLength": 1, "not": schema{"enum": []string{"POD_NAMESPACE", "EPPCTL_REPLICA", "GOMEMLIMIT"}}}},
	})
}

// volumes refuses those that the Deployment has.
func volumes() schema {
	return list(schema{"type": "object", "properties": schema{"name": schema{"not": schema{"enum": []string{"report-token", "tls"}}}}})
}

// when is a rule about several values.
func when(condition, then schema) schema {
	return schema{"if": schema{"properties": condition}, "then": schema{"properties": then}}
}

// rules are those that [Options.Validate] has about several values.
func (o *Options) rules() []schema {
	empty, something, no := schema{"const": ""}, schema{"minLength": 1}, schema{"const": false}
	rules := []schema{
		when(schema{"name": empty}, schema{"pool": named(serviceDNS, maxName-len("-epp"))}),
		when(schema{"gatewayClass": schema{"const": "kgateway"}}, schema{"plaintext": no}),
		when(schema{"gatewayNamespace": something}, schema{"gatewayClass": empty, "gateway": something}),
		when(schema{"tlsSecret": something, "adminAuth": no, "reportTokenSecret": empty}, schema{"plaintext": no}),
	}
	if o.keeps("NetworkPolicy") {
		selected := schema{"selector": schema{"minProperties": 1}}
		rules = append(rules, when(schema{"reportTokenSecret": something}, selected), when(schema{"restrictEgress": schema{"const": true}}, selected))
	}
	return rules
}

// schemaFile is the chart's values.schema.json, by which Helm checks the values.
func (o *Options) schemaFile() (string, error) {
	properties := schema{"global": anyObject()} // of a chart that has this one in it
	var required []string
	for _, v := range o.values() {
		v.schema["description"] = strings.ReplaceAll(v.comment, "\n", " ")
		properties[v.name] = v.schema
		required = append(required, v.name)
	}
	b, err := json.MarshalIndent(schema{
		"$schema": "http://json-schema.org/draft-07/schema#",
		"title":   "Values of a picker's chart",
		"type":    "object", "properties": properties, "required": required, "additionalProperties": false,
		"allOf": o.rules(),
	}, "", "  ")
	return string(b) + "\n", err
}
