package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	runtimeclasses "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	nodev1 "k8s.io/client-go/kubernetes/typed/node/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
)

// apiServer treats Jobs, Pods and ConfigMaps as kube-apiserver does on CREATE: defaults, the admission plugins
// that read PriorityClasses, LimitRanges and RuntimeClasses, preparation and validation.
type apiServer struct {
	plugins []admission.Interface
	stores  map[string]cache.Indexer
}

// newAPIServer sets the plugins up over stores that each case fills anew; no informer ever runs.
func newAPIServer() (*apiServer, error) {
	factory := informers.NewSharedInformerFactory(nil, 0)
	limits, err := limitranger.NewLimitRanger(nil)
	if err != nil {
		return nil, err
	}
	priorities, classes := priority.NewPlugin(), runtimeclass.NewRuntimeClass()
	limits.SetExternalKubeInformerFactory(factory)
	priorities.SetExternalKubeInformerFactory(factory)
	classes.SetExternalKubeInformerFactory(factory)
	classes.SetExternalKubeClientSet(noCluster{})
	ready := func() bool { return true }
	limits.SetReadyFunc(ready)
	priorities.SetReadyFunc(ready)
	classes.SetReadyFunc(ready)
	return &apiServer{
		plugins: []admission.Interface{limits, priorities, classes},
		stores: map[string]cache.Indexer{
			"LimitRange":    factory.Core().V1().LimitRanges().Informer().GetIndexer(),
			"PriorityClass": factory.Scheduling().V1().PriorityClasses().Informer().GetIndexer(),
			"RuntimeClass":  factory.Node().V1().RuntimeClasses().Informer().GetIndexer(),
		},
	}, nil
}

// noCluster answers the plugin that asks again for a RuntimeClass which its store does not have.
type noCluster struct{ kubernetes.Interface }

func (noCluster) NodeV1() nodev1.NodeV1Interface { return noClasses{} }

type noClasses struct{ nodev1.NodeV1Interface }

func (noClasses) RuntimeClasses() nodev1.RuntimeClassInterface { return noClass{} }

type noClass struct{ nodev1.RuntimeClassInterface }

func (noClass) Get(_ context.Context, name string, _ metav1.GetOptions) (*runtimeclasses.RuntimeClass, error) {
	return nil, apierrors.NewNotFound(runtimeclasses.Resource("runtimeclasses"), name)
}

// setCluster fills the stores; the two PriorityClasses of the system are in every cluster.
func (s *apiServer) setCluster(objects []json.RawMessage) error {
	items := map[string][]any{"PriorityClass": {
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-cluster-critical"}, Value: 2000000000},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-node-critical"}, Value: 2000001000},
	}}
	for _, text := range objects {
		decoded, kind, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
		if apiruntime.IsNotRegisteredError(err) {
			continue
		}
		if err != nil {
			return err
		}
		items[kind.Kind] = append(items[kind.Kind], decoded)
	}
	for kind, store := range s.stores {
		if err := store.Replace(items[kind], ""); err != nil {
			return err
		}
	}
	return nil
}

// job returns the Job as it would be stored, refused or not.
func (s *apiServer) job(made *batchv1.Job) (*batchv1.Job, []Finding, error) {
	made.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
	internal, err := defaulted(made)
	if err != nil {
		return nil, nil, err
	}
	stored := internal.(*batch.Job)
	found := s.create(made.Name, job.Strategy, &stored.ObjectMeta, stored)
	var versioned batchv1.Job
	return &versioned, found, legacyscheme.Scheme.Convert(stored, &versioned, nil)
}

// pod makes the first Pod of a Job, as the Job controller does.
func (s *apiServer) pod(from *batchv1.Job) ([]Finding, error) {
	template := from.Spec.Template.DeepCopy()
	made := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        from.Name + "-abcde",
			Namespace:   from.Namespace,
			Labels:      template.Labels,
			Annotations: template.Annotations,
			Finalizers:  append(template.Finalizers, batchv1.JobTrackingFinalizer),
		},
		Spec: template.Spec,
	}
	if from.Spec.CompletionMode != nil && *from.Spec.CompletionMode == batchv1.IndexedCompletion {
		index(made, from.Name)
	}
	internal, err := defaulted(made)
	if err != nil {
		return nil, err
	}
	stored := internal.(*core.Pod)
	attributes := admission.NewAttributesRecord(
		stored, nil, core.SchemeGroupVersion.WithKind("Pod"), made.Namespace, made.Name,
		core.Resource("pods").WithVersion("v1"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
	found := s.admitPod(made.Name, attributes, false)
	found = append(found, s.create(made.Name, pod.Strategy, &stored.ObjectMeta, stored)...)
	return append(found, s.admitPod(made.Name, attributes, true)...), nil
}

// index does what the Job controller does to the first Pod of an indexed Job (indexed_job_utils.go).
func index(made *corev1.Pod, job string) {
	made.Name = job + "-0-abcde"
	made.Spec.Hostname = job + "-0"
	made.Labels = with(made.Labels, batchv1.JobCompletionIndexAnnotation, "0")
	made.Annotations = with(made.Annotations, batchv1.JobCompletionIndexAnnotation, "0")
	path := fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation)
	variable := corev1.EnvVar{
		Name:      "JOB_COMPLETION_INDEX",
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}},
	}
	for _, containers := range [][]corev1.Container{made.Spec.InitContainers, made.Spec.Containers} {
		for i := range containers {
			containers[i].Env = append(containers[i].Env, variable)
		}
	}
}

func with(values map[string]string, key, value string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}

func (s *apiServer) admitPod(name string, attributes admission.Attributes, validating bool) []Finding {
	var found []Finding
	for _, plugin := range s.plugins {
		if _, ok := plugin.(*limitranger.LimitRanger); ok && len(s.stores["LimitRange"].List()) == 0 {
			continue // it would ask the cluster, of which there is none
		}
		var err error
		if mutating, ok := plugin.(admission.MutationInterface); ok && !validating {
			err = mutating.Admit(context.Background(), attributes, nil)
		}
		if checking, ok := plugin.(admission.ValidationInterface); ok && validating {
			err = checking.Validate(context.Background(), attributes, nil)
		}
		found = append(found, errorFindings(name, err)...)
	}
	return found
}

func (s *apiServer) configMap(object *unstructured.Unstructured) ([]Finding, error) {
	internal, err := defaulted(object)
	if err != nil {
		return nil, err
	}
	stored := internal.(*core.ConfigMap)
	return s.create(stored.Name, configmap.Strategy, &stored.ObjectMeta, stored), nil
}

// create is the part of the registry that prepares and validates.
func (s *apiServer) create(
	name string, strategy rest.RESTCreateStrategy, metadata *metav1.ObjectMeta, object apiruntime.Object,
) []Finding {
	if metadata.Namespace == "" {
		metadata.Namespace = "default"
	}
	kinds, _, _ := legacyscheme.Scheme.ObjectKinds(object)
	ctx := genericapirequest.WithNamespace(genericapirequest.NewContext(), metadata.Namespace)
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		APIGroup: kinds[0].Group, APIVersion: "v1", Namespace: metadata.Namespace, Name: name,
	})
	rest.FillObjectMetaSystemFields(metadata)
	return errorFindings(name, rest.BeforeCreate(strategy, ctx, object))
}

// defaulted reads an object as the API server does: text to a versioned object, defaults, the internal form.
func defaulted(object any) (apiruntime.Object, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	decoded, kind, err := legacyscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", kind, err)
	}
	return decoded, nil
}

func errorFindings(object string, err error) []Finding {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		whole := status.Status()
		return causes(object, &whole)
	}
	return []Finding{{Object: object, Detail: err.Error()}}
}
