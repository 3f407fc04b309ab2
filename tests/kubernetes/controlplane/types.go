package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// facts is what writeTypes prints: the type of each "group/version Kind", and what every type holds.
type facts struct {
	Kinds map[string]string      `json:"kinds"`
	Types map[string]*structType `json:"types"`
}

type structType struct {
	Fields  map[string]*field `json:"fields"`
	Inlined map[string]*field `json:"inlined,omitempty"` // messages of their own on the wire whose fields JSON has here
	MapType string            `json:"mapType,omitempty"`
	Unions  any               `json:"unions,omitempty"`
}

type field struct {
	Type          string `json:"type"`
	Number        int    `json:"number,omitempty"` // 0: not on the wire
	IsRequired    bool   `json:"required,omitempty"`
	IsPointer     bool   `json:"pointer,omitempty"`
	KeepsEmpty    bool   `json:"keepsEmpty,omitempty"` // JSON has it even when it is empty
	OmitsZero     bool   `json:"omitsZero,omitempty"`  // JSON leaves out a message without content too
	PatchStrategy string `json:"patchStrategy,omitempty"`
	PatchMergeKey string `json:"patchMergeKey,omitempty"`
	ListType      string `json:"listType,omitempty"`
	ListMapKeys   any    `json:"listMapKeys,omitempty"`
	MapType       string `json:"mapType,omitempty"`
	Enum          []any  `json:"enum,omitempty"`
	Default       any    `json:"default,omitempty"`
}

// scalars are the types with a JSON form of their own.
var scalars = map[string]string{
	"io.k8s.apimachinery.pkg.api.resource.Quantity":                                         "quantity",
	"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1":                                         "raw",
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":                                        "microtime",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time":                                             "time",
	"io.k8s.apimachinery.pkg.runtime.RawExtension":                                          "raw",
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString":                                       "intorstring",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON":                         "raw",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray":       "schemaorarray",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool":        "schemaorbool",
	"io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "schemaorstringarray",
}

// writeTypes prints what the Go types and their published definitions say about every built-in kind, without texts.
func writeTypes() error {
	definitions := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef(name) })
	known := reader{definitions: definitions, types: map[string]*structType{}}
	kinds := map[string]string{}
	for kind, goType := range knownTypes().AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || !isMessage(goType) {
			continue
		}
		kinds[kind.GroupVersion().String()+" "+kind.Kind] = known.expression(goType)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(facts{Kinds: kinds, Types: known.types})
}

// reader collects the types it meets.
type reader struct {
	definitions map[string]common.OpenAPIDefinition
	types       map[string]*structType
}

// expression is the short form of a type: a scalar, the name of a struct, or "[]" or "map[string]" in front of one.
func (r *reader) expression(goType reflect.Type) string {
	if goType.Kind() == reflect.Pointer {
		return r.expression(goType.Elem())
	}
	switch goType.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return goType.Kind().String()
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return boxed(goType) + "[]" + r.expression(goType.Elem())
	case reflect.Map:
		if goType.Key().Kind() != reflect.String {
			panic(fmt.Sprintf("%s has keys that are no strings", goType))
		}
		return "map[string]" + r.expression(goType.Elem())
	case reflect.Struct:
		name := modelName(goType)
		if scalar, isScalar := scalars[name]; isScalar {
			return scalar
		}
		r.read(name, goType)
		return name
	}
	panic(fmt.Sprintf("%s is of a kind without a name here", goType))
}

// boxed marks a list that is a message of its own on the wire, so that an empty one differs from none.
func boxed(goType reflect.Type) string {
	if isMessage(goType) {
		return "box "
	}
	return ""
}

// isMessage tells the types that protobuf has; a table, for one, is only ever JSON.
func isMessage(goType reflect.Type) bool {
	_, canMarshal := reflect.New(goType).Interface().(interface{ Marshal() ([]byte, error) })
	return canMarshal
}

func modelName(goType reflect.Type) string {
	named, isNamed := reflect.Zero(goType).Interface().(interface{ OpenAPIModelName() string })
	if !isNamed {
		panic(fmt.Sprintf("%s has no published name", goType))
	}
	return named.OpenAPIModelName()
}

func (r *reader) read(name string, goType reflect.Type) {
	if r.types[name] != nil {
		return
	}
	schema := r.definitions[name].Schema
	found := &structType{Fields: map[string]*field{}, Inlined: map[string]*field{}}
	r.types[name] = found // before its fields, which may be of the same type
	found.MapType, _ = schema.Extensions["x-kubernetes-map-type"].(string)
	found.Unions = schema.Extensions["x-kubernetes-unions"]
	r.readFields(goType, schema, found)
}

func (r *reader) readFields(goType reflect.Type, schema spec.Schema, found *structType) {
	for index := range goType.NumField() {
		member := goType.Field(index)
		jsonName, options, _ := strings.Cut(member.Tag.Get("json"), ",")
		number, wireName := wire(member.Tag.Get("protobuf"))
		switch {
		case jsonName == "-" || !member.IsExported():
		case jsonName != "":
			found.Fields[jsonName] = r.field(member, jsonName, strings.Split(options, ","), schema)
		case number == 0:
			// Kind and version of an object: the wire has them outside of it.
			outside := &structType{Fields: map[string]*field{}}
			r.readFields(member.Type, schema, outside)
			for name, one := range outside.Fields {
				one.Number = 0
				found.Fields[name] = one
			}
		default:
			found.Inlined[wireName] = &field{Type: r.expression(member.Type), Number: number, IsPointer: member.Type.Kind() == reflect.Pointer}
		}
	}
}

func (r *reader) field(member reflect.StructField, jsonName string, options []string, schema spec.Schema) *field {
	number, _ := wire(member.Tag.Get("protobuf"))
	property := schema.Properties[jsonName]
	found := &field{
		Type:          r.expression(member.Type),
		Number:        number,
		IsRequired:    slices.Contains(schema.Required, jsonName),
		IsPointer:     member.Type.Kind() == reflect.Pointer,
		KeepsEmpty:    !slices.Contains(options, "omitempty"),
		OmitsZero:     slices.Contains(options, "omitzero"),
		PatchStrategy: member.Tag.Get("patchStrategy"),
		PatchMergeKey: member.Tag.Get("patchMergeKey"),
		ListMapKeys:   property.Extensions["x-kubernetes-list-map-keys"],
		Enum:          property.Enum,
	}
	found.ListType, _ = property.Extensions["x-kubernetes-list-type"].(string)
	found.MapType, _ = property.Extensions["x-kubernetes-map-type"].(string)
	if property.Items != nil && property.Items.Schema != nil {
		found.Enum = append(found.Enum, property.Items.Schema.Enum...)
	}
	if property.Default != nil && !isEmpty(property.Default) {
		found.Default = property.Default
	}
	return found
}

// isEmpty tells a default that only says what Go would have anyway.
func isEmpty(value any) bool {
	content := reflect.ValueOf(value)
	return content.IsZero() || content.Kind() == reflect.Map && content.Len() == 0
}

// wire reads a tag such as "bytes,2,rep,name=containers".
func wire(tag string) (number int, name string) {
	for place, part := range strings.Split(tag, ",") {
		if place == 1 {
			number, _ = strconv.Atoi(part)
		}
		if value, isName := strings.CutPrefix(part, "name="); isName {
			name = value
		}
	}
	return number, name
}
