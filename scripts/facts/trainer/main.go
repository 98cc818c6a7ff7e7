// Command trainer prints, for one line of the Trainer, the JSON forms of its Go types: of everything that a TrainJob
// or a runtime passes through. With "roundtrip" as its argument it reads lines {"type", "obj"} and prints what
// json.Unmarshal into that type and json.Marshal give, or {"error"}.
//
//	go run -modfile=line-2.3.mod .
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// field is one key of a struct's JSON.
type field struct {
	Name     string `json:"n"`
	Form     form   `json:"f"`
	Omit     string `json:"o,omitempty"` // "e" omitempty, "z" omitzero (alone or with omitempty)
	Strategy string `json:"s,omitempty"` // patchStrategy
	MergeKey string `json:"k,omitempty"` // patchMergeKey
}

// form is a type: a kind, and what is below it.
type form struct {
	Kind string `json:"k"`           // string, bytes, bool, int, float, quantity, int-or-string, time, raw, struct, map, list
	Ptr  bool   `json:"p,omitempty"` // behind a pointer
	Type string `json:"t,omitempty"` // name of the struct
	Elem *form  `json:"e,omitempty"` // of a map or a list
}

type grower struct {
	types map[string][]field
	known map[string]reflect.Type
}

var special = map[reflect.Type]string{
	reflect.TypeOf(resource.Quantity{}):  "quantity",
	reflect.TypeOf(intstr.IntOrString{}): "int-or-string",
	reflect.TypeOf(metav1.Time{}):        "time",
	reflect.TypeOf(metav1.FieldsV1{}):    "raw",
}

var (
	marshaler   = reflect.TypeOf((*json.Marshaler)(nil)).Elem()
	unmarshaler = reflect.TypeOf((*json.Unmarshaler)(nil)).Elem()
)

func (g *grower) form(t reflect.Type) form {
	if t.Kind() == reflect.Pointer {
		f := g.form(t.Elem())
		if f.Ptr {
			panic("pointer to pointer")
		}
		f.Ptr = true
		return f
	}
	if kind, ok := special[t]; ok {
		return form{Kind: kind}
	}
	if t.Implements(marshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
		panic("a JSON form of its own: " + t.String())
	}
	switch t.Kind() {
	case reflect.String:
		return form{Kind: "string"}
	case reflect.Bool:
		return form{Kind: "bool"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return form{Kind: "int"}
	case reflect.Float32, reflect.Float64:
		return form{Kind: "float"}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return form{Kind: "bytes"}
		}
		elem := g.form(t.Elem())
		return form{Kind: "list", Elem: &elem}
	case reflect.Map:
		elem := g.form(t.Elem())
		return form{Kind: "map", Elem: &elem}
	case reflect.Struct:
		return form{Kind: "struct", Type: g.add(t)}
	}
	panic("a kind that is not expected: " + t.String())
}

// name is the type's own name, or with its package's folder where another one has that name already.
func (g *grower) name(t reflect.Type) string {
	if seen, ok := g.known[t.Name()]; !ok || seen == t {
		return t.Name()
	}
	parts := strings.Split(t.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], "/") + "." + t.Name()
}

func (g *grower) add(t reflect.Type) string {
	name := g.name(t)
	if _, ok := g.known[name]; ok {
		return name
	}
	g.known[name] = t
	g.types[name] = []field{}
	g.types[name] = g.fields(t)
	return name
}

func (g *grower) fields(t reflect.Type) []field {
	out := []field{}
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if f.Anonymous && name == "" {
			out = append(out, g.fields(f.Type)...)
			continue
		}
		if name == "" {
			panic("no JSON name: " + t.String() + "." + f.Name)
		}
		omit := ""
		for _, option := range strings.Split(options, ",") {
			switch option {
			case "omitempty":
				omit = max(omit, "e")
			case "omitzero":
				omit = "z"
			case "", "inline":
			default:
				panic("an option that is not expected: " + option)
			}
		}
		out = append(out, field{
			Name: name, Form: g.form(f.Type), Omit: omit,
			Strategy: f.Tag.Get("patchStrategy"), MergeKey: f.Tag.Get("patchMergeKey"),
		})
	}
	return out
}

func grow() *grower {
	g := &grower{types: map[string][]field{}, known: map[string]reflect.Type{}}
	// The runtime first, so that it is the types of Kubernetes that keep their short names.
	for _, root := range []any{trainer.TrainingRuntimeSpec{}, trainer.TrainJobSpec{}, trainer.TrainJobStatus{}} {
		g.add(reflect.TypeOf(root))
	}
	return g
}

func roundtrip(g *grower) {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			var request struct {
				Type string          `json:"type"`
				Obj  json.RawMessage `json:"obj"`
			}
			if err := json.Unmarshal(line, &request); err != nil {
				panic(err)
			}
			value := reflect.New(g.known[request.Type]).Interface()
			var text []byte
			failure := json.Unmarshal(request.Obj, value)
			if failure == nil {
				text, failure = json.Marshal(value)
			}
			if failure != nil {
				text, _ = json.Marshal(map[string]string{"error": failure.Error()})
			}
			out.Write(append(text, '\n'))
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(err)
		}
	}
}

func main() {
	g := grow()
	if len(os.Args) > 1 && os.Args[1] == "roundtrip" {
		roundtrip(g)
		return
	}
	text, err := json.Marshal(g.types)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}
