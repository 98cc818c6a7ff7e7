package common

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	schedulerpluginsv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
)

const (
	defaultNamespace = "default"
	defaultUID       = "00000000-0000-4000-8000-000000000001"
	kindTrainJob     = "TrainJob"
	kindRuntime      = "TrainingRuntime"
	kindCluster      = "ClusterTrainingRuntime"
)

// Oracle answers cases. It is not safe for concurrent use: the Trainer keeps globals.
type Oracle struct {
	line    Line
	lenient bool
	crds    map[string]*CRD
	scheme  *apiruntime.Scheme
	codecs  serializer.CodecFactory
	mapper  meta.RESTMapper
	// The mutating webhook at the two times; nil if the line has none.
	defaulter, defaulterBefore *admission.Webhook
}

// NewOracle reads the CRDs and prepares everything that can be shared between cases.
func NewOracle(line Line, crdFolder string, lenient bool) (*Oracle, error) {
	crds, err := loadCRDs(crdFolder)
	if err != nil {
		return nil, err
	}
	scheme := apiruntime.NewScheme()
	register := append([]func(*apiruntime.Scheme) error{
		clientgoscheme.AddToScheme, trainer.AddToScheme, jobsetv1alpha2.AddToScheme,
		schedulerpluginsv1alpha1.AddToScheme,
	}, line.AddToScheme...)
	for _, add := range register {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	oracle := &Oracle{
		line:    line,
		lenient: lenient,
		crds:    crds,
		scheme:  scheme,
		codecs:  serializer.NewCodecFactory(scheme),
		mapper:  meta.NewDefaultRESTMapper(nil),
	}
	if line.Defaulter != nil {
		oracle.defaulter = line.Defaulter(scheme, now)
		oracle.defaulterBefore = line.Defaulter(scheme, before)
	}
	return oracle, nil
}

// Answer walks one case through all stages.
func (o *Oracle) Answer(ctx context.Context, c *Case) Result {
	result := Result{ID: c.ID}
	if panicked := guarded(func() {
		if err := o.answer(ctx, c, &result); err != nil {
			result.Error = err.Error()
		}
	}); panicked != "" {
		result.Error = "oracle panic: " + panicked
	}
	return result
}

func (o *Oracle) answer(ctx context.Context, c *Case, result *Result) error {
	if c.Operation == OpValidateRuntime {
		return o.answerRuntime(ctx, c, result)
	}
	objects, err := o.clusterObjects(ctx, c, result)
	if err != nil {
		return err
	}
	job, old, err := o.admitTrainJob(ctx, c, result)
	if err != nil || job == nil {
		return err
	}
	if !o.lenient && len(result.TrainJobSchemaErrors)+len(result.RuntimeSchemaErrors) > 0 {
		return nil
	}
	o.validate(ctx, objects, old, job, result)
	o.buildAll(ctx, c, objects, job, result)
	return nil
}

// clusterObjects is what the fake cluster holds: the runtime, as stored, and the given objects.
func (o *Oracle) clusterObjects(ctx context.Context, c *Case, result *Result) ([]client.Object, error) {
	var objects []client.Object
	if present(c.Runtime) {
		runtime, err := decodeUnstructured(c.Runtime)
		if err != nil {
			return nil, fmt.Errorf("runtime: %w", err)
		}
		typed, err := o.storeRuntime(ctx, runtime, nil, result)
		if err != nil {
			return nil, fmt.Errorf("runtime: %w", err)
		}
		if typed != nil {
			objects = append(objects, typed)
		}
	}
	for i, raw := range c.Objects {
		object, err := o.decodeTyped(raw)
		if err != nil {
			return nil, fmt.Errorf("objects[%d]: %w", i, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// storeRuntime applies the CRD to a runtime; nil without error if it can exist nowhere.
func (o *Oracle) storeRuntime(
	ctx context.Context, runtime, old *unstructured.Unstructured, result *Result,
) (client.Object, error) {
	crd, ok := o.crds[runtime.GetKind()]
	if !ok || crd.kind.Kind == kindTrainJob {
		return nil, fmt.Errorf("%q is no kind of runtime", runtime.GetKind())
	}
	crd.fillIdentity(runtime)
	pruned, err := crd.coerce(runtime)
	if err != nil {
		result.RuntimeSchemaErrors = problems(err)
		return nil, nil
	}
	result.RuntimePruned = pruned
	if old != nil {
		crd.fillIdentity(old)
		if _, err := crd.coerce(old); err != nil {
			return nil, fmt.Errorf("old runtime: %w", err)
		}
	}
	if errs := crd.store(ctx, runtime, old); len(errs) > 0 {
		result.RuntimeSchemaErrors = problems(errs.ToAggregate())
	}
	result.Runtime = runtime.Object
	typed, err := o.typed(runtime)
	if err != nil && len(result.RuntimeSchemaErrors) > 0 {
		return nil, nil
	}
	return typed, err
}

// admitTrainJob takes the TrainJob up to the validating webhook; no TrainJob without error means
// that the API server refused it earlier in a way that leaves nothing to go on with.
func (o *Oracle) admitTrainJob(ctx context.Context, c *Case, result *Result) (job, old *trainer.TrainJob, err error) {
	crd := o.crds[kindTrainJob]
	raw, err := decodeUnstructured(c.TrainJob)
	if err != nil {
		return nil, nil, fmt.Errorf("trainJob: %w", err)
	}
	var rawOld *unstructured.Unstructured
	if c.Operation == OpUpdate {
		if rawOld, err = o.decodeOld(ctx, crd, c); err != nil {
			return nil, nil, err
		}
		result.OldObject = rawOld.Object
	}
	crd.fillNamespace(raw)
	pruned, err := crd.coerce(raw)
	if err != nil {
		result.TrainJobSchemaErrors = problems(err)
		return nil, nil, nil
	}
	result.TrainJobPruned = pruned
	if o.defaulter != nil {
		if raw, err = o.mutateAndCoerce(ctx, crd, raw, rawOld, result); err != nil {
			return nil, nil, err
		}
	}
	crd.fillIdentity(raw)
	if errs := crd.store(ctx, raw, rawOld); len(errs) > 0 {
		result.TrainJobSchemaErrors = problems(errs.ToAggregate())
	}
	result.TrainJob = raw.Object
	typed, err := o.typed(raw)
	if err != nil {
		if result.MutationError+result.MutationPanic != "" || len(result.TrainJobSchemaErrors) > 0 {
			return nil, nil, nil
		}
		// The schema lets some numbers pass that Go cannot hold; the webhook's decoder refuses them.
		result.WebhookErrors = problems(err)
		return nil, nil, nil
	}
	job = typed.(*trainer.TrainJob)
	if rawOld != nil {
		typedOld, err := o.typed(rawOld)
		if err != nil {
			return nil, nil, fmt.Errorf("oldObject: %w", err)
		}
		old = typedOld.(*trainer.TrainJob)
	}
	return job, old, nil
}

// mutateAndCoerce returns the object unchanged if the webhook refuses or panics.
func (o *Oracle) mutateAndCoerce(
	ctx context.Context, crd *CRD, raw, rawOld *unstructured.Unstructured, result *Result,
) (*unstructured.Unstructured, error) {
	var mutated *unstructured.Unstructured
	var err error
	result.MutationPanic = guarded(func() {
		mutated, result.MutationError, err = o.mutate(ctx, o.defaulter, raw, rawOld)
	})
	if err != nil {
		return nil, fmt.Errorf("mutating webhook: %w", err)
	}
	if mutated == nil {
		return raw, nil
	}
	if _, err := crd.coerce(mutated); err != nil {
		return nil, fmt.Errorf("mutated trainJob: %w", err)
	}
	return mutated, nil
}

// decodeOld returns the old object as stored. If the case says that it was sent, it is created now
// (a day earlier), since the mutating webhook may have written it anew.
func (o *Oracle) decodeOld(ctx context.Context, crd *CRD, c *Case) (*unstructured.Unstructured, error) {
	if !present(c.OldObject) {
		return nil, errors.New("UPDATE without oldObject")
	}
	old, err := decodeUnstructured(c.OldObject)
	if err != nil {
		return nil, fmt.Errorf("oldObject: %w", err)
	}
	crd.fillIdentity(old)
	if _, err := crd.coerce(old); err != nil {
		return nil, fmt.Errorf("oldObject: %w", err)
	}
	if !c.OldObjectSent || o.defaulterBefore == nil {
		return old, nil
	}
	created, _, err := o.mutate(ctx, o.defaulterBefore, old, nil)
	if err != nil || created == nil {
		return old, nil // it could not have been created: take it as it is
	}
	if _, err := crd.coerce(created); err != nil {
		return nil, fmt.Errorf("oldObject: %w", err)
	}
	return created, nil
}

func (o *Oracle) validate(ctx context.Context, objects []client.Object, old, job *trainer.TrainJob, result *Result) {
	result.WebhookPanic = guarded(func() {
		runtimes, err := o.line.NewRuntimes(ctx, o.newCluster(objects).client)
		if err != nil {
			result.Error = fmt.Sprintf("framework: %v", err)
			return
		}
		if old != nil {
			old = old.DeepCopy()
		}
		warnings, err := o.validateTrainJob(ctx, runtimes, old, job.DeepCopy())
		result.WebhookWarnings = warnings
		result.WebhookErrors = problems(err)
	})
}

// buildAll builds as often as the case says and keeps the distinct outcomes.
func (o *Oracle) buildAll(ctx context.Context, c *Case, objects []client.Object, job *trainer.TrainJob, result *Result) {
	seen := map[string]bool{}
	for i := range max(c.Tries, 1) {
		outcome := o.build(ctx, objects, job, c.Reconciles)
		if i == 0 {
			result.Outcome = outcome
		}
		if print := outcome.fingerprint(); c.Tries > 0 && !seen[print] {
			seen[print] = true
			result.Variants = append(result.Variants, outcome)
		}
	}
}

// answerRuntime is for VALIDATE_RUNTIME: the runtime's CRD and its webhook.
func (o *Oracle) answerRuntime(ctx context.Context, c *Case, result *Result) error {
	runtime, err := decodeUnstructured(c.Runtime)
	if err != nil {
		return fmt.Errorf("runtime: %w", err)
	}
	var old *unstructured.Unstructured
	var typedOld apiruntime.Object
	if present(c.OldObject) {
		if old, err = decodeUnstructured(c.OldObject); err != nil {
			return fmt.Errorf("oldObject: %w", err)
		}
	}
	typed, err := o.storeRuntime(ctx, runtime, old, result)
	if err != nil || typed == nil || (!o.lenient && len(result.RuntimeSchemaErrors) > 0) {
		return err
	}
	if old != nil {
		if typedOld, err = o.typed(old); err != nil {
			return fmt.Errorf("oldObject: %w", err)
		}
	}
	result.WebhookPanic = guarded(func() {
		warnings, err := o.line.ValidateRuntime(ctx, typedOld, typed)
		result.WebhookWarnings = warnings
		result.WebhookErrors = problems(err)
	})
	return nil
}

func (o *Oracle) typed(obj *unstructured.Unstructured) (client.Object, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	return o.decodeTyped(text)
}

// fillNamespace puts a namespaced object without namespace where a client would.
func (c *CRD) fillNamespace(obj *unstructured.Unstructured) {
	if c.namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(defaultNamespace)
	}
}

// fillIdentity adds what the API server itself adds; a UID that the case gives is kept.
func (c *CRD) fillIdentity(obj *unstructured.Unstructured) {
	c.fillNamespace(obj)
	if obj.GetUID() == "" {
		obj.SetUID(defaultUID)
	}
}

func decodeUnstructured(text []byte) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	_, _, err := unstructured.UnstructuredJSONScheme.Decode(text, nil, obj)
	return obj, err
}

func present(text json.RawMessage) bool {
	return len(text) > 0 && string(text) != "null"
}
