package common

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"sort"
	"strings"

	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	trainerruntime "github.com/kubeflow/trainer/v2/pkg/runtime"
)

// cluster is a fake API server and what the framework applied to it by itself.
type cluster struct {
	client  client.Client
	applied []any
}

// newCluster holds the objects in a plain tracker: the fake client's own one, which can merge
// server-side applies, costs several milliseconds a case and is needed by nobody here.
func (o *Oracle) newCluster(objects []client.Object) *cluster {
	tracker := clienttesting.NewObjectTracker(o.scheme, o.codecs.UniversalDecoder())
	made := &cluster{}
	calls := interceptor.Funcs{Get: o.getWithKind}
	if o.line.CaptureApply != nil {
		o.line.CaptureApply(&calls, func(applied any) error {
			made.applied = append(made.applied, applied)
			text, err := json.Marshal(applied)
			if err != nil {
				return err
			}
			object, err := o.decodeTyped(text)
			if err != nil {
				return err
			}
			return tracker.Add(object)
		})
	}
	builder := fake.NewClientBuilder().
		WithScheme(o.scheme).
		WithObjectTracker(tracker).
		WithRESTMapper(o.mapper).
		WithInterceptorFuncs(calls)
	for _, object := range objects {
		builder = builder.WithObjects(object.DeepCopyObject().(client.Object))
	}
	made.client = builder.Build()
	return made
}

// getWithKind sets apiVersion and kind, as the manager's cache does and the fake client does not:
// the runtime snapshot is written with them, and refused without them.
func (o *Oracle) getWithKind(
	ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption,
) error {
	if err := c.Get(ctx, key, obj, options...); err != nil {
		return err
	}
	kind, err := apiutil.GVKForObject(obj, o.scheme)
	if err != nil {
		return err
	}
	obj.GetObjectKind().SetGroupVersionKind(kind)
	return nil
}

// build calls NewObjects with a new framework, as often as the case says.
func (o *Oracle) build(ctx context.Context, objects []client.Object, job *trainer.TrainJob, reconciles int) Outcome {
	var outcome Outcome
	outcome.BuildPanic = guarded(func() {
		world := o.newCluster(objects)
		runtimes, err := o.line.NewRuntimes(ctx, world.client)
		if err != nil {
			outcome.BuildError = fmt.Sprintf("framework: %v", err)
			return
		}
		for range max(reconciles, 1) {
			world.applied = nil
			outcome = o.reconcile(ctx, world, runtimes, job.DeepCopy())
			if outcome.BuildError != "" {
				return
			}
		}
	})
	if outcome.BuildPanic != "" {
		outcome.Objects = nil
	}
	return outcome
}

func (o *Oracle) reconcile(
	ctx context.Context, world *cluster, runtimes map[string]trainerruntime.Runtime, job *trainer.TrainJob,
) Outcome {
	key := trainerruntime.RuntimeRefToRuntimeRegistryKey(job.Spec.RuntimeRef)
	runtime, ok := runtimes[key]
	if !ok {
		return Outcome{BuildError: "unsupported runtime: " + key}
	}
	built, err := o.line.NewObjects(ctx, runtime, job)
	if err != nil {
		return Outcome{BuildError: pointers.ReplaceAllString(err.Error(), "0x…")}
	}
	outcome := Outcome{Objects: []any{}}
	for _, object := range append(world.applied, built...) {
		plain, err := toMap(object)
		if err != nil {
			return Outcome{BuildError: fmt.Sprintf("cannot print %T: %v", object, err)}
		}
		maskSecrets(plain)
		outcome.Objects = append(outcome.Objects, plain)
	}
	return outcome
}

// pointers are printed by some of the Trainer's messages and differ from run to run.
var pointers = regexp.MustCompile(`0x[0-9a-f]{6,}`)

// toMap turns an apply configuration, a typed or an unstructured object into plain JSON.
func toMap(object any) (map[string]any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var plain map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	return plain, decoder.Decode(&plain)
}

// What stands in the output for texts that are the Trainer's own or random.
const (
	maskedKey      = "<key material>"
	maskedScript   = "<script>"
	maskedSnapshot = "<runtime snapshot>"
)

// maskSecrets keeps the keys of generated data and drops its contents.
func maskSecrets(object map[string]any) {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	kind, _ := object["kind"].(string)
	switch {
	case kind == "Secret":
		maskValues(object, maskedKey)
	case kind == "ConfigMap" && strings.HasSuffix(name, "-flux-entrypoint"):
		maskValues(object, maskedScript)
	case kind == "ConfigMap" && strings.HasSuffix(name, "-runtime-snapshot"):
		maskValues(object, maskedSnapshot)
	}
}

func maskValues(object map[string]any, mask string) {
	for _, part := range []string{"data", "stringData", "binaryData"} {
		values, _ := object[part].(map[string]any)
		for key := range values {
			values[key] = mask
		}
	}
}

// fingerprint is equal for outcomes that differ only in the order of their objects.
func (outcome Outcome) fingerprint() string {
	lines := []string{outcome.BuildError, outcome.BuildPanic}
	for _, object := range outcome.Objects {
		text, _ := json.Marshal(object)
		lines = append(lines, string(text))
	}
	sort.Strings(lines[2:])
	return strings.Join(lines, "\n")
}

func (o *Oracle) decodeTyped(text []byte) (client.Object, error) {
	decoded, _, err := o.codecs.UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	object, ok := decoded.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", decoded)
	}
	return object, nil
}
