// Command apiserver answers what the API server makes of custom resources: it runs the code of
// k8s.io/apiextensions-apiserver over the objects that it reads, one JSON document a line, and writes one answer
// a line.
//
//	apiserver 2.3=FOLDER... < cases > answers
//
// FOLDER holds the CRDs of a line. A case is {"line", "kind", "obj", "old"?}, an answer {"obj", "pruned", "errors"},
// where an error is [reason of the cause, field, message] and "obj" what would be stored.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	schemaobjectmeta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/yaml"
)

// strategy is what customresource.NewStrategy returns.
type strategy interface {
	PrepareForCreate(ctx context.Context, obj runtime.Object)
	PrepareForUpdate(ctx context.Context, obj, old runtime.Object)
	Validate(ctx context.Context, obj runtime.Object) field.ErrorList
	ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList
}

type kind struct {
	structural *structuralschema.Structural
	strategy   strategy
	namespaced bool
}

type request struct {
	Line string          `json:"line"`
	Kind string          `json:"kind"`
	Obj  json.RawMessage `json:"obj"`
	Old  json.RawMessage `json:"old,omitempty"`
}

type answer struct {
	Obj    map[string]any `json:"obj"`
	Pruned []string       `json:"pruned"`
	Errors [][3]string    `json:"errors"`
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func load(path string) (string, kind) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(must(os.ReadFile(path)), &crd); err != nil {
		panic(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, &internal, nil); err != nil {
		panic(err)
	}
	version := internal.Spec.Versions[0]
	// After conversion a schema that all versions share stands on the top.
	props := internal.Spec.Validation
	if version.Schema != nil {
		props = version.Schema
	}
	subresources := internal.Spec.Subresources
	if version.Subresources != nil {
		subresources = version.Subresources
	}
	structural := must(structuralschema.NewStructural(props.OpenAPIV3Schema))
	validator, _, err := validation.NewSchemaValidator(props.OpenAPIV3Schema)
	if err != nil {
		panic(err)
	}
	var status *apiextensions.CustomResourceSubresourceStatus
	if subresources != nil {
		status = subresources.Status
	}
	gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}
	namespaced := crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	return gvk.Kind, kind{
		structural: structural,
		strategy: customresource.NewStrategy(crdserverscheme.NewUnstructuredObjectTyper(), namespaced, gvk, validator,
			nil, structural, status, nil, nil),
		namespaced: namespaced,
	}
}

// decode is unstructuredSchemaCoercer.apply and unstructuredDefaulter.Default of the API server.
func (k kind) decode(raw []byte) (*unstructured.Unstructured, []string, error) {
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(raw, &u.Object); err != nil {
		return nil, nil, err
	}
	meta, found, unknown, err := schemaobjectmeta.GetObjectMetaWithOptions(u.Object,
		schemaobjectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, nil, err
	}
	apiVersion, kindName := u.Object["apiVersion"], u.Object["kind"]
	unknown = append(unknown, pruning.PruneWithOptions(u.Object, k.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, k.structural)
	if ferr, _ := schemaobjectmeta.CoerceWithOptions(nil, u.Object, k.structural, false,
		schemaobjectmeta.CoerceOptions{}); ferr != nil {
		return nil, nil, ferr
	}
	u.Object["apiVersion"], u.Object["kind"] = apiVersion, kindName
	if found {
		if err := schemaobjectmeta.SetObjectMeta(u.Object, meta); err != nil {
			return nil, nil, err
		}
	}
	defaulting.Default(u.Object, k.structural)
	// What the store does before it validates (rest.BeforeCreate, EnsureObjectNamespaceMatchesRequestNamespace).
	if k.namespaced && u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	if !k.namespaced {
		u.SetNamespace("")
	}
	return u, unknown, nil
}

func (k kind) answer(req request) answer {
	ctx := context.Background()
	obj, pruned, err := k.decode(req.Obj)
	if err != nil {
		return answer{Errors: [][3]string{{"BadRequest", "", err.Error()}}}
	}
	var errs field.ErrorList
	if req.Old == nil {
		generated := obj.GetName() == "" && obj.GetGenerateName() != ""
		if generated {
			prefix := obj.GetGenerateName()
			obj.SetName(prefix[:min(len(prefix), 58)] + "00000")
		}
		generation := obj.GetGeneration()
		rest.WipeObjectMetaSystemFields(obj)
		k.strategy.PrepareForCreate(ctx, obj)
		errs = k.strategy.Validate(ctx, obj)
		obj.SetGeneration(generation)
		if generated {
			obj.SetName("")
		}
	} else {
		old, _, err := k.decode(req.Old)
		if err != nil {
			return answer{Errors: [][3]string{{"BadRequest", "", err.Error()}}}
		}
		for _, u := range []*unstructured.Unstructured{obj, old} {
			if u.GetResourceVersion() == "" {
				u.SetResourceVersion("1")
			}
		}
		generation := obj.GetGeneration()
		obj.SetGeneration(old.GetGeneration())
		k.strategy.PrepareForUpdate(ctx, obj, old)
		restore(obj, old)
		errs = k.strategy.ValidateUpdate(ctx, obj, old)
		obj.SetGeneration(generation)
	}
	out := answer{Obj: obj.Object, Pruned: pruned, Errors: [][3]string{}}
	if out.Pruned == nil {
		out.Pruned = []string{}
	}
	for _, e := range errs {
		out.Errors = append(out.Errors, [3]string{string(e.Type), e.Field, e.ErrorBody()})
	}
	return out
}

// restore is the middle of rest.BeforeUpdate.
func restore(obj, old *unstructured.Unstructured) {
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	if t := old.GetCreationTimestamp(); !t.IsZero() {
		obj.SetCreationTimestamp(t)
	}
	if t := old.GetDeletionTimestamp(); !t.IsZero() {
		obj.SetDeletionTimestamp(t)
	}
	if s := old.GetDeletionGracePeriodSeconds(); s != nil && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(s)
	}
}

func main() {
	kinds := map[string]kind{}
	for _, arg := range os.Args[1:] {
		line, folder, _ := strings.Cut(arg, "=")
		for _, path := range must(filepath.Glob(filepath.Join(folder, "trainer.kubeflow.org_*.yaml"))) {
			name, loaded := load(path)
			kinds[line+"/"+name] = loaded
		}
	}
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		text, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(text)) > 0 {
			var req request
			if err := json.Unmarshal(text, &req); err != nil {
				panic(err)
			}
			k, ok := kinds[req.Line+"/"+req.Kind]
			if !ok {
				panic(fmt.Sprintf("no CRD for %s of %s", req.Kind, req.Line))
			}
			out.Write(must(json.Marshal(k.answer(req))))
			out.WriteByte('\n')
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(err)
		}
	}
}
