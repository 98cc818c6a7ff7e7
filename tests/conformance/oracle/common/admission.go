package common

import (
	"context"
	"encoding/json"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	trainerruntime "github.com/kubeflow/trainer/v2/pkg/runtime"
)

// mutate sends the object through the line's mutating webhook, handler and JSON patch included. A
// text in place of an object is the webhook's refusal.
func (o *Oracle) mutate(
	ctx context.Context, webhook *admission.Webhook, obj, old *unstructured.Unstructured,
) (*unstructured.Unstructured, string, error) {
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, "", err
	}
	request := admissionv1.AdmissionRequest{
		UID:       "oracle",
		Kind:      metav1.GroupVersionKind{Group: trainer.GroupVersion.Group, Version: trainer.GroupVersion.Version, Kind: obj.GetKind()},
		Name:      obj.GetName(),
		Namespace: obj.GetNamespace(),
		Operation: admissionv1.Create,
		Object:    apiruntime.RawExtension{Raw: raw},
	}
	if old != nil {
		request.Operation = admissionv1.Update
		if request.OldObject.Raw, err = json.Marshal(old); err != nil {
			return nil, "", err
		}
	}
	response := webhook.Handle(ctx, admission.Request{AdmissionRequest: request})
	if err := response.Complete(admission.Request{AdmissionRequest: request}); err != nil {
		return nil, "", err
	}
	if !response.Allowed {
		return nil, response.Result.Message, nil
	}
	if len(response.Patch) == 0 {
		return obj, "", nil
	}
	patch, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		return nil, "", err
	}
	patched, err := patch.Apply(raw)
	if err != nil {
		return nil, "", err
	}
	mutated, err := decodeUnstructured(patched)
	return mutated, "", err
}

// validateTrainJob does what the line's validating webhook does, but keeps the errors apart.
func (o *Oracle) validateTrainJob(
	ctx context.Context, runtimes map[string]trainerruntime.Runtime, old, job *trainer.TrainJob,
) (admission.Warnings, error) {
	var found field.ErrorList
	if old == nil && o.line.ExtraCreateChecks != nil {
		found = append(found, o.line.ExtraCreateChecks(job)...)
	}
	key := trainerruntime.RuntimeRefToRuntimeRegistryKey(job.Spec.RuntimeRef)
	runtime, ok := runtimes[key]
	if !ok {
		return nil, fmt.Errorf("unsupported runtime: %s", key)
	}
	warnings, errs := runtime.ValidateObjects(ctx, old, job)
	return warnings, append(found, errs...).ToAggregate()
}
