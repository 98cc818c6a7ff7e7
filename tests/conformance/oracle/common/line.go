// Package common is the oracle: it answers, for one TrainJob at a time, what the Kubernetes API
// server and the Kubeflow Trainer would make of it, by running their own Go code.
//
// A case meets the same stages as in a cluster: the CRD (crd.go), the Trainer's webhooks
// (admission.go), and the controller's NewObjects (build.go). Each Trainer line is a Go module of
// its own beside this one, which hands over what differs between the lines as a Line.
package common

import (
	"context"
	"time"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	trainerruntime "github.com/kubeflow/trainer/v2/pkg/runtime"
)

// Line is what differs between the supported lines of the Trainer.
type Line struct {
	// Name is the line's short name, such as "2.3".
	Name string
	// AddToScheme registers the kinds that not every line knows.
	AddToScheme []func(*apiruntime.Scheme) error
	// NewRuntimes makes the framework anew; the Trainer orders its plugins at random here.
	NewRuntimes func(context.Context, client.Client) (map[string]trainerruntime.Runtime, error)
	// NewObjects builds what the controller would apply, in its order.
	NewObjects func(context.Context, trainerruntime.Runtime, *trainer.TrainJob) ([]any, error)
	// Defaulter makes the mutating webhook, whose clock stands still; nil if the line has none.
	Defaulter func(scheme *apiruntime.Scheme, now time.Time) *admission.Webhook
	// ExtraCreateChecks is what the line's webhook checks on CREATE besides ValidateObjects.
	ExtraCreateChecks func(*trainer.TrainJob) field.ErrorList
	// ValidateRuntime calls the line's webhook for runtimes; old is nil on CREATE.
	ValidateRuntime func(ctx context.Context, old, obj apiruntime.Object) (admission.Warnings, error)
	// CaptureApply makes the fake client hand on what the framework applies by itself (the 2.3
	// runtime snapshot); nil if the line's framework never applies anything.
	CaptureApply func(calls *interceptor.Funcs, capture func(any) error)
}

// The time at which every case happens, and the time at which old objects were created.
var (
	now    = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	before = now.Add(-24 * time.Hour)
)

// NoIndex accepts field indexes and forgets them: only the Trainer's watches read them.
type NoIndex struct{}

// IndexField implements client.FieldIndexer.
func (NoIndex) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

// Anys forgets the type of the items.
func Anys[T any](items []T) []any {
	forgotten := make([]any, 0, len(items))
	for _, item := range items {
		forgotten = append(forgotten, item)
	}
	return forgotten
}
