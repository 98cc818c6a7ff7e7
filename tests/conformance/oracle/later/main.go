// Command later tells what refuses the objects that the Trainer's controller builds, after every webhook of
// TrainJobs has let pass: JobSet's CRD and webhook, and the API server on each Job and Pod.
//
// JSON lines in, JSON lines out; README.md beside the oracle says what they hold.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // collecting less often saves time, as in the oracle
	crd := flag.String("crd", "", "file of JobSet's CRD (config/components/crd/bases of its module)")
	version := flag.Bool("version", false, "print the versions of the modules")
	flag.Parse()
	var err error
	if *version {
		printVersion()
	} else {
		err = serve(*crd)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "later:", err)
		os.Exit(1)
	}
}

// Case is one line of the input.
type Case struct {
	ID string `json:"id"`
	// Objects are what the Trainer's controller applies, as the oracle prints them.
	Objects []json.RawMessage `json:"objects"`
	// Old are the objects that it applied before; their JobSet is there already.
	Old []json.RawMessage `json:"old"`
	// Cluster are the PriorityClasses, LimitRanges and RuntimeClasses that Pods meet.
	Cluster []json.RawMessage `json:"cluster"`
}

// Answer is one line of the output: who refuses what. Absent fields mean "nobody".
type Answer struct {
	ID           string    `json:"id"`
	Error        string    `json:"error,omitempty"`
	JobSetSchema []Finding `json:"jobSetSchema,omitempty"`
	JobSet       []Finding `json:"jobSet,omitempty"`
	Jobs         []Finding `json:"jobs,omitempty"`
	Pods         []Finding `json:"pods,omitempty"`
	ConfigMaps   []Finding `json:"configMaps,omitempty"`
}

// Finding is one thing that one of them says about one object.
type Finding struct {
	Object string `json:"object"`
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// serve answers line by line and flushes each answer, so that a caller may talk to it.
func serve(crd string) error {
	world, err := newWorld(crd)
	if err != nil {
		return err
	}
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	for {
		text, readErr := input.ReadString('\n')
		if strings.TrimSpace(text) != "" {
			if err := encoder.Encode(world.answerText(text)); err != nil {
				return err
			}
			if err := output.Flush(); err != nil {
				return err
			}
		}
		if readErr == io.EOF {
			return nil
		}
		if readErr != nil {
			return readErr
		}
	}
}

// world is what every case shares.
type world struct {
	jobSets *jobSets
	server  *apiServer
}

func newWorld(crd string) (*world, error) {
	jobSets, err := newJobSets(crd)
	if err != nil {
		return nil, err
	}
	server, err := newAPIServer()
	return &world{jobSets: jobSets, server: server}, err
}

func (w *world) answerText(text string) (answer Answer) {
	var c Case
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Answer{Error: fmt.Sprintf("case: %v", err)}
	}
	defer func() {
		if r := recover(); r != nil {
			answer = Answer{ID: c.ID, Error: fmt.Sprintf("panic: %v\n%s", r, debug.Stack())}
		}
	}()
	answer.ID = c.ID
	if err := w.answer(&c, &answer); err != nil {
		answer.Error = err.Error()
	}
	return answer
}

func (w *world) answer(c *Case, answer *Answer) error {
	if err := w.server.setCluster(c.Cluster); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	old, err := jobSetOf(c.Old)
	if err != nil {
		return fmt.Errorf("old: %w", err)
	}
	for _, text := range c.Objects {
		object, err := decode(text)
		if err != nil {
			return err
		}
		switch object.GetKind() {
		case "JobSet":
			if err := w.jobSet(object, old, answer); err != nil {
				return err
			}
		case "ConfigMap":
			found, err := w.server.configMap(object)
			if err != nil {
				return err
			}
			answer.ConfigMaps = append(answer.ConfigMaps, found...)
		}
	}
	return nil
}

// jobSet goes down all the way, whoever refuses on it: what stands behind shows once the first is mended.
func (w *world) jobSet(object, old *unstructured.Unstructured, answer *Answer) error {
	stored, err := w.jobSets.admit(object, old, answer)
	if err != nil || stored == nil {
		return err
	}
	jobs, err := w.jobSets.jobs(stored)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		made, found, err := w.server.job(job)
		if err != nil {
			return err
		}
		answer.Jobs = append(answer.Jobs, found...)
		found, err = w.server.pod(made)
		if err != nil {
			return err
		}
		answer.Pods = append(answer.Pods, found...)
	}
	return nil
}

func jobSetOf(objects []json.RawMessage) (*unstructured.Unstructured, error) {
	for _, text := range objects {
		object, err := decode(text)
		if err != nil {
			return nil, err
		}
		if object.GetKind() == "JobSet" {
			return object, nil
		}
	}
	return nil, nil
}

func decode(text []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	_, _, err := unstructured.UnstructuredJSONScheme.Decode(text, nil, object)
	return object, err
}

// printVersion tells from what the program was built.
func printVersion() {
	modules := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			switch dependency.Path {
			case "k8s.io/kubernetes", "sigs.k8s.io/jobset", "sigs.k8s.io/controller-runtime":
				modules[dependency.Path] = dependency.Version
			}
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"modules": modules})
}
