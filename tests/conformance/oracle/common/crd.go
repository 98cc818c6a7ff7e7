package common

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// strategy is the part of the API server's storage strategy for custom resources that we call.
type strategy interface {
	PrepareForCreate(ctx context.Context, obj apiruntime.Object)
	Validate(ctx context.Context, obj apiruntime.Object) field.ErrorList
	PrepareForUpdate(ctx context.Context, obj, old apiruntime.Object)
	ValidateUpdate(ctx context.Context, obj, old apiruntime.Object) field.ErrorList
}

// CRD treats objects of one kind as the API server does.
type CRD struct {
	kind       runtimeschema.GroupVersionKind
	namespaced bool
	structural *schema.Structural
	strategy   strategy
}

// loadCRDs reads the Trainer's CRDs and returns them by kind.
func loadCRDs(folder string) (map[string]*CRD, error) {
	files, err := filepath.Glob(filepath.Join(folder, "trainer.kubeflow.org_*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no CRDs in %q", folder)
	}
	crds := map[string]*CRD{}
	for _, file := range files {
		crd, err := loadCRD(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		crds[crd.kind.Kind] = crd
	}
	return crds, nil
}

// loadCRD prepares one CRD in the way of apiextensions-apiserver's customresource_handler.go.
func loadCRD(file string) (*CRD, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return nil, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
	version := definition.Spec.Versions[0]
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(
		version.Schema, &internal, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	structural = structural.DeepCopy()
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	var status *apiextensions.CustomResourceSubresourceStatus
	var statusValidator validation.SchemaValidator
	if version.Subresources != nil && version.Subresources.Status != nil {
		status = &apiextensions.CustomResourceSubresourceStatus{}
		statusSchema := internal.OpenAPIV3Schema.Properties["status"]
		if statusValidator, _, err = validation.NewSchemaValidator(&statusSchema); err != nil {
			return nil, err
		}
	}
	kind := runtimeschema.GroupVersionKind{
		Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind,
	}
	namespaced := definition.Spec.Scope == apiextensionsv1.NamespaceScoped
	return &CRD{
		kind:       kind,
		namespaced: namespaced,
		structural: structural,
		strategy: customresource.NewStrategy(
			nil, namespaced, kind, validator, statusValidator, structural, status, nil, nil),
	}, nil
}

// coerce is what happens when a request is decoded: defaults, pruning, and null removal. The paths
// of the fields that were pruned are returned.
func (c *CRD) coerce(obj *unstructured.Unstructured) ([]string, error) {
	defaulting.Default(obj.Object, c.structural)
	meta, found, unknown, err := objectmeta.GetObjectMetaWithOptions(
		obj.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	kind, apiVersion := obj.GetKind(), obj.GetAPIVersion()
	options := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	unknown = append(unknown, pruning.PruneWithOptions(obj.Object, c.structural, true, options)...)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, c.structural)
	embeddedErr, embedded := objectmeta.CoerceWithOptions(
		nil, obj.Object, c.structural, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if embeddedErr != nil {
		return nil, embeddedErr
	}
	obj.SetKind(kind)
	obj.SetAPIVersion(apiVersion)
	if found {
		if err := objectmeta.SetObjectMeta(obj.Object, meta); err != nil {
			return nil, err
		}
	}
	return append(unknown, embedded...), nil
}

// store validates the object as it would be stored; old is nil on CREATE. The resource version is
// the API server's own affair: it is set for the validation and taken off again.
func (c *CRD) store(ctx context.Context, obj, old *unstructured.Unstructured) field.ErrorList {
	if old == nil {
		c.strategy.PrepareForCreate(ctx, obj)
		return c.strategy.Validate(ctx, obj)
	}
	before := old.DeepCopy()
	before.SetResourceVersion("1")
	if before.GetGeneration() == 0 {
		before.SetGeneration(1)
	}
	obj.SetResourceVersion("1")
	obj.SetUID(before.GetUID())
	obj.SetGeneration(before.GetGeneration())
	if created := before.GetCreationTimestamp(); !created.IsZero() {
		obj.SetCreationTimestamp(created)
	}
	c.strategy.PrepareForUpdate(ctx, obj, before)
	problems := c.strategy.ValidateUpdate(ctx, obj, before)
	obj.SetResourceVersion("")
	return problems
}
