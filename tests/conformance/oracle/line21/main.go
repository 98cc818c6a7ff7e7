// Command line21 is the oracle for the Trainer's 2.1 line.
package main

import (
	"context"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	trainerruntime "github.com/kubeflow/trainer/v2/pkg/runtime"
	"github.com/kubeflow/trainer/v2/pkg/runtime/core"
	"github.com/kubeflow/trainer/v2/pkg/webhooks"
	"stationmaster/oracle/common"
)

func main() {
	common.Main(common.Line{
		Name:            "2.1",
		AddToScheme:     []func(*apiruntime.Scheme) error{volcanov1beta1.AddToScheme},
		NewRuntimes:     newRuntimes,
		NewObjects:      newObjects,
		ValidateRuntime: validateRuntime,
	})
}

func newRuntimes(ctx context.Context, c client.Client) (map[string]trainerruntime.Runtime, error) {
	return core.New(ctx, c, common.NoIndex{})
}

func newObjects(ctx context.Context, r trainerruntime.Runtime, job *trainer.TrainJob) ([]any, error) {
	built, err := r.NewObjects(ctx, job)
	return common.Anys(built), err
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
