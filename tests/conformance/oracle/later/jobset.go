package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sort"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/controllers"
	"sigs.k8s.io/jobset/pkg/webhooks"
)

const (
	mutatePath   = "/mutate-jobset-x-k8s-io-v1alpha2-jobset"
	validatePath = "/validate-jobset-x-k8s-io-v1alpha2-jobset"
	uid          = types.UID("00000000-0000-4000-8000-000000000002")
)

// jobSets are JobSet's CRD, its webhook and its controller.
type jobSets struct {
	scheme     *apiruntime.Scheme
	structural *schema.Structural
	strategy   interface {
		PrepareForCreate(ctx context.Context, obj apiruntime.Object)
		Validate(ctx context.Context, obj apiruntime.Object) field.ErrorList
		PrepareForUpdate(ctx context.Context, obj, old apiruntime.Object)
		ValidateUpdate(ctx context.Context, obj, old apiruntime.Object) field.ErrorList
	}
	mutating, validating *admission.Webhook
}

func newJobSets(crd string) (*jobSets, error) {
	made := &jobSets{scheme: apiruntime.NewScheme()}
	for _, add := range []func(*apiruntime.Scheme) error{clientgoscheme.AddToScheme, jobset.AddToScheme} {
		if err := add(made.scheme); err != nil {
			return nil, err
		}
	}
	if err := made.loadCRD(crd); err != nil {
		return nil, fmt.Errorf("%s: %w", crd, err)
	}
	return made, made.loadWebhooks()
}

// loadCRD prepares the CRD in the way of apiextensions-apiserver's customresource_handler.go.
func (j *jobSets) loadCRD(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return err
	}
	version := definition.Spec.Versions[0]
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(
		version.Schema, &internal, nil); err != nil {
		return err
	}
	if j.structural, err = schema.NewStructural(internal.OpenAPIV3Schema); err != nil {
		return err
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return err
	}
	kind := runtimeschema.GroupVersionKind{
		Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind,
	}
	j.strategy = customresource.NewStrategy(nil, true, kind, validator, nil, j.structural, nil, nil, nil)
	return nil
}

// loadWebhooks lets JobSet register its webhooks, whose types are not exported, and keeps those of JobSets.
func (j *jobSets) loadWebhooks() error {
	server := &registrations{handlers: map[string]http.Handler{}}
	if err := webhooks.Setup(&manager{scheme: j.scheme, server: server}); err != nil {
		return err
	}
	var ok bool
	if j.mutating, ok = server.handlers[mutatePath].(*admission.Webhook); !ok {
		return errors.New("JobSet has no mutating webhook")
	}
	if j.validating, ok = server.handlers[validatePath].(*admission.Webhook); !ok {
		return errors.New("JobSet has no validating webhook")
	}
	return nil
}

// admit is what happens to a JobSet on its way into the store; nil if it cannot even be read.
func (j *jobSets) admit(object, old *unstructured.Unstructured, answer *Answer) (*jobset.JobSet, error) {
	if old != nil {
		var ignored Answer
		stored, err := j.prepare(old, &ignored)
		if err != nil || stored == nil {
			return nil, err
		}
		old = stored
	}
	stored, err := j.prepare(object, answer)
	if err != nil || stored == nil {
		return nil, err
	}
	name := stored.GetName()
	answer.JobSetSchema = append(answer.JobSetSchema, findings(name, j.validate(stored, old))...)
	response, err := j.call(j.validating, stored, old)
	if err != nil {
		return nil, err
	}
	answer.JobSet = append(answer.JobSet, statusFindings(name, response)...)
	var typed jobset.JobSet
	if err := apiruntime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, &typed); err != nil {
		return nil, err
	}
	return &typed, nil
}

// prepare applies the CRD's defaults and the mutating webhook. JobSet registers that for CREATE alone: on an
// update its values are still there, since the controller that applies never owned them.
func (j *jobSets) prepare(object *unstructured.Unstructured, answer *Answer) (*unstructured.Unstructured, error) {
	object = object.DeepCopy()
	object.SetUID(uid)
	j.coerce(object)
	response, err := j.call(j.mutating, object, nil)
	if err != nil {
		return nil, err
	}
	if !response.Allowed {
		answer.JobSet = append(answer.JobSet, statusFindings(object.GetName(), response)...)
		return nil, nil
	}
	if len(response.Patch) == 0 {
		return object, nil
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		return nil, err
	}
	if raw, err = patch.Apply(raw); err != nil {
		return nil, err
	}
	patched, err := decode(raw)
	if err != nil {
		return nil, err
	}
	j.coerce(patched)
	return patched, nil
}

func (j *jobSets) coerce(object *unstructured.Unstructured) {
	kind, apiVersion := object.GetKind(), object.GetAPIVersion()
	defaulting.Default(object.Object, j.structural)
	pruning.Prune(object.Object, j.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, j.structural)
	object.SetKind(kind)
	object.SetAPIVersion(apiVersion)
}

func (j *jobSets) validate(object, old *unstructured.Unstructured) field.ErrorList {
	ctx := context.Background()
	object = object.DeepCopy()
	if old == nil {
		j.strategy.PrepareForCreate(ctx, object)
		return j.strategy.Validate(ctx, object)
	}
	before := old.DeepCopy()
	before.SetResourceVersion("1")
	before.SetGeneration(1)
	object.SetResourceVersion("1")
	object.SetGeneration(1)
	j.strategy.PrepareForUpdate(ctx, object, before)
	return j.strategy.ValidateUpdate(ctx, object, before)
}

// call sends a review through a webhook, as an UPDATE if there is an old object.
func (j *jobSets) call(to *admission.Webhook, object, old *unstructured.Unstructured) (admission.Response, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return admission.Response{}, err
	}
	kind := object.GroupVersionKind()
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID:       "later",
		Kind:      metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
		Name:      object.GetName(),
		Namespace: object.GetNamespace(),
		Operation: admissionv1.Create,
		Object:    apiruntime.RawExtension{Raw: raw},
	}}
	if old != nil {
		request.Operation = admissionv1.Update
		if request.OldObject.Raw, err = json.Marshal(old); err != nil {
			return admission.Response{}, err
		}
	}
	response := to.Handle(context.Background(), request)
	return response, response.Complete(request)
}

// jobs lets JobSet's controller create the first Job of each replicated job, all at once: whether one waits
// for another does not change what it is.
func (j *jobSets) jobs(stored *jobset.JobSet) ([]*batchv1.Job, error) {
	stored = stored.DeepCopy()
	stored.Spec.StartupPolicy = nil
	stored.Spec.ManagedBy = nil
	for i := range stored.Spec.ReplicatedJobs {
		job := &stored.Spec.ReplicatedJobs[i]
		job.DependsOn = nil
		job.Replicas = min(job.Replicas, 1)
	}
	world := &recorder{scheme: j.scheme, jobSet: stored}
	reconciler := controllers.NewJobSetReconciler(world, j.scheme, events.NewFakeRecorder(1000))
	_, err := reconciler.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(stored)})
	sort.Slice(world.jobs, func(a, b int) bool { return world.jobs[a].Name < world.jobs[b].Name })
	return world.jobs, err
}

// manager is as much of a manager as registering webhooks takes.
type manager struct {
	ctrl.Manager
	scheme *apiruntime.Scheme
	server webhook.Server
}

func (m *manager) GetScheme() *apiruntime.Scheme    { return m.scheme }
func (m *manager) GetConfig() *rest.Config          { return &rest.Config{} }
func (m *manager) GetClient() client.Client         { return &recorder{scheme: m.scheme} }
func (m *manager) GetWebhookServer() webhook.Server { return m.server }

type registrations struct {
	webhook.Server
	handlers map[string]http.Handler
}

func (r *registrations) Register(path string, handler http.Handler) { r.handlers[path] = handler }
func (r *registrations) WebhookMux() *http.ServeMux                 { return nil }

// recorder is a client of a cluster that holds one JobSet; it keeps the Jobs that are created.
type recorder struct {
	client.Client
	scheme *apiruntime.Scheme
	jobSet *jobset.JobSet
	lock   sync.Mutex
	jobs   []*batchv1.Job
}

func (r *recorder) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if wanted, ok := object.(*jobset.JobSet); ok && r.jobSet != nil {
		r.jobSet.DeepCopyInto(wanted)
		return nil
	}
	return apierrors.NewNotFound(runtimeschema.GroupResource{}, key.Name)
}

func (r *recorder) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (r *recorder) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	if job, ok := object.(*batchv1.Job); ok {
		r.lock.Lock()
		defer r.lock.Unlock()
		r.jobs = append(r.jobs, job)
	}
	return nil
}

func (r *recorder) Scheme() *apiruntime.Scheme       { return r.scheme }
func (r *recorder) Status() client.SubResourceWriter { return noStatus{} }

type noStatus struct{ client.SubResourceWriter }

func (noStatus) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return nil
}

func (noStatus) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return nil
}

func findings(object string, errs field.ErrorList) []Finding {
	var found []Finding
	for _, err := range errs {
		found = append(found, Finding{Object: object, Field: err.Field, Detail: err.ErrorBody()})
	}
	return found
}

func statusFindings(object string, response admission.Response) []Finding {
	if response.Allowed {
		return nil
	}
	return causes(object, response.Result)
}

func causes(object string, status *metav1.Status) []Finding {
	if status == nil || status.Details == nil || len(status.Details.Causes) == 0 {
		message := ""
		if status != nil {
			message = status.Message
		}
		return []Finding{{Object: object, Detail: message}}
	}
	var found []Finding
	for _, cause := range status.Details.Causes {
		found = append(found, Finding{Object: object, Field: cause.Field, Detail: cause.Message})
	}
	return found
}
