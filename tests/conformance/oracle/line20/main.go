// Command line20 is the oracle for the Trainer's 2.0 line.
package main

import (
	"context"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	trainerruntime "github.com/kubeflow/trainer/v2/pkg/runtime"
	"github.com/kubeflow/trainer/v2/pkg/runtime/core"
	"github.com/kubeflow/trainer/v2/pkg/webhooks"
	"stationmaster/oracle/common"
)

func main() {
	common.Main(common.Line{
		Name:              "2.0",
		NewRuntimes:       newRuntimes,
		NewObjects:        newObjects,
		ExtraCreateChecks: checkName,
		ValidateRuntime:   validateRuntime,
	})
}

func newRuntimes(ctx context.Context, c client.Client) (map[string]trainerruntime.Runtime, error) {
	return core.New(ctx, c, common.NoIndex{})
}

func newObjects(ctx context.Context, r trainerruntime.Runtime, job *trainer.TrainJob) ([]any, error) {
	return r.NewObjects(ctx, job)
}

// checkName stands in the 2.0 webhook itself; later lines have it as a rule of the CRD.
func checkName(job *trainer.TrainJob) field.ErrorList {
	var found field.ErrorList
	for _, problem := range validation.IsDNS1035Label(job.Name) {
		found = append(found, field.Invalid(field.NewPath("metadata", "name"), job.Name, problem))
	}
	return found
}

func validateRuntime(ctx context.Context, old, obj apiruntime.Object) (admission.Warnings, error) {
	var validator admission.CustomValidator = &webhooks.TrainingRuntimeWebhook{}
	if _, ok := obj.(*trainer.ClusterTrainingRuntime); ok {
		validator = &webhooks.ClusterTrainingRuntimeWebhook{}
	}
	if old == nil {
		return validator.ValidateCreate(ctx, obj)
	}
	return validator.ValidateUpdate(ctx, old, obj)
}
