package common

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The operations that a case may ask for.
const (
	OpCreate          = "CREATE"
	OpUpdate          = "UPDATE"
	OpValidateRuntime = "VALIDATE_RUNTIME"
)

// Case is one line of the input.
type Case struct {
	ID        string            `json:"id"`
	TrainJob  json.RawMessage   `json:"trainJob"`
	Runtime   json.RawMessage   `json:"runtime"`
	Objects   []json.RawMessage `json:"objects"`
	Operation string            `json:"operation"`
	OldObject json.RawMessage   `json:"oldObject"`
	// OldObjectSent says that oldObject is as a client sent it, not as it was stored.
	OldObjectSent bool `json:"oldObjectSent"`
	// Tries is how often the objects are built, each time with new (randomly ordered) plugins.
	Tries int `json:"tries"`
	// Reconciles is how often NewObjects is called on one framework and cluster; the last answer
	// counts. From 2.3 on the second call reads the runtime from the snapshot.
	Reconciles int `json:"reconciles"`
}

// Result is one line of the output. Absent fields mean "nothing of that kind".
type Result struct {
	ID                   string    `json:"id"`
	Error                string    `json:"error,omitempty"`
	TrainJob             any       `json:"trainJob,omitempty"`
	OldObject            any       `json:"oldObject,omitempty"`
	Runtime              any       `json:"runtime,omitempty"`
	TrainJobPruned       []string  `json:"trainJobPruned,omitempty"`
	RuntimePruned        []string  `json:"runtimePruned,omitempty"`
	TrainJobSchemaErrors []Problem `json:"trainJobSchemaErrors,omitempty"`
	RuntimeSchemaErrors  []Problem `json:"runtimeSchemaErrors,omitempty"`
	MutationError        string    `json:"mutationError,omitempty"`
	MutationPanic        string    `json:"mutationPanic,omitempty"`
	WebhookWarnings      []string  `json:"webhookWarnings,omitempty"`
	WebhookErrors        []Problem `json:"webhookErrors,omitempty"`
	WebhookPanic         string    `json:"webhookPanic,omitempty"`
	Outcome
	Variants []Outcome `json:"variants,omitempty"`
}

// Outcome is what one call of NewObjects gave.
type Outcome struct {
	Objects    []any  `json:"objects,omitempty"`
	BuildError string `json:"buildError,omitempty"`
	BuildPanic string `json:"buildPanic,omitempty"`
}

// Problem is one finding of the API server or of a webhook.
type Problem struct {
	Type     string `json:"type"`
	Field    string `json:"field"`
	Detail   string `json:"detail"`
	BadValue any    `json:"badValue,omitempty"`
	Message  string `json:"message"`
}

// problems takes an error, or an aggregate of errors, apart.
func problems(err error) []Problem {
	if err == nil {
		return nil
	}
	var aggregate utilerrors.Aggregate
	if !errors.As(err, &aggregate) {
		return []Problem{problem(err)}
	}
	var found []Problem
	for _, one := range aggregate.Errors() {
		found = append(found, problem(one))
	}
	return found
}

func problem(err error) Problem {
	var fieldError *field.Error
	if !errors.As(err, &fieldError) {
		return Problem{Type: "Error", Detail: err.Error(), Message: err.Error()}
	}
	return Problem{
		Type:     string(fieldError.Type),
		Field:    fieldError.Field,
		Detail:   fieldError.Detail,
		BadValue: jsonValue(fieldError.BadValue),
		Message:  fieldError.Error(),
	}
}

// jsonValue makes sure that a value can be printed, whatever it is.
func jsonValue(value any) any {
	if strings.HasSuffix(fmt.Sprintf("%T", value), ".OmitValueType") {
		return nil
	}
	if _, err := json.Marshal(value); err != nil {
		return fmt.Sprintf("%v", value)
	}
	return value
}

// guarded runs a stage and turns its panic into text, which names the Trainer's function.
func guarded(stage func()) (panicked string) {
	defer func() {
		if r := recover(); r != nil {
			panicked = fmt.Sprint(r) + panicPlace()
		}
	}()
	stage()
	return ""
}

// panicPlace finds the innermost function of the Trainer on the stack of a panic.
func panicPlace() string {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for {
		frame, more := frames.Next()
		if _, function, ok := strings.Cut(frame.Function, trainerModule); ok {
			return " in " + function
		}
		if !more {
			return ""
		}
	}
}

const trainerModule = "github.com/kubeflow/trainer/v2/"
