// Command line22 is the oracle for the Trainer's 2.2 line.
package main

import (
	"context"
	"reflect"
	"time"
	"unsafe"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	volcanov1beta1 "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	configapi "github.com/kubeflow/trainer/v2/pkg/apis/config/v1alpha1"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	trainerruntime "github.com/kubeflow/trainer/v2/pkg/runtime"
	"github.com/kubeflow/trainer/v2/pkg/runtime/core"
	"github.com/kubeflow/trainer/v2/pkg/webhooks"
	"stationmaster/oracle/common"
)

func main() {
	common.Main(common.Line{
		Name:            "2.2",
		AddToScheme:     []func(*apiruntime.Scheme) error{volcanov1beta1.AddToScheme},
		NewRuntimes:     newRuntimes,
		NewObjects:      newObjects,
		Defaulter:       defaulter,
		ValidateRuntime: validateRuntime,
	})
}

func newRuntimes(ctx context.Context, c client.Client) (map[string]trainerruntime.Runtime, error) {
	return core.New(ctx, c, common.NoIndex{}, &configapi.Configuration{})
}

func newObjects(ctx context.Context, r trainerruntime.Runtime, job *trainer.TrainJob) ([]any, error) {
	built, err := r.NewObjects(ctx, job)
	return common.Anys(built), err
}

// defaulter stops the clock of the Trainer's own defaulter, whose field is not exported.
func defaulter(scheme *apiruntime.Scheme, now time.Time) *admission.Webhook {
	made := &webhooks.TrainJobDefaulter{}
	field := reflect.ValueOf(made).Elem().FieldByName("clock")
	still := clock.PassiveClock(clocktesting.NewFakePassiveClock(now))
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(still))
	return admission.WithDefaulter(scheme, made)
}

func validateRuntime(ctx context.Context, old, obj apiruntime.Object) (admission.Warnings, error) {
	if clusterRuntime, ok := obj.(*trainer.ClusterTrainingRuntime); ok {
		validator := &webhooks.ClusterTrainingRuntimeValidator{}
		if old == nil {
			return validator.ValidateCreate(ctx, clusterRuntime)
		}
		return validator.ValidateUpdate(ctx, old.(*trainer.ClusterTrainingRuntime), clusterRuntime)
	}
	validator := &webhooks.TrainingRuntimeValidator{}
	if old == nil {
		return validator.ValidateCreate(ctx, obj.(*trainer.TrainingRuntime))
	}
	return validator.ValidateUpdate(ctx, old.(*trainer.TrainingRuntime), obj.(*trainer.TrainingRuntime))
}
