package common

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Main is the whole program of a line.
func Main(line Line) {
	ctrl.SetLogger(logr.Discard())
	debug.SetGCPercent(400) // collecting less often saves a tenth of the time
	crds := flag.String("crds", "", "folder of the Trainer's CRDs (manifests/base/crds of its module)")
	shipped := flag.String("runtimes", "", "print the runtimes of this folder (manifests/base/runtimes) as JSON lines")
	lenient := flag.Bool("lenient", false, "go on to the later stages when a schema refuses")
	version := flag.Bool("version", false, "print the line and the versions of its modules")
	flag.Parse()
	var err error
	switch {
	case *version:
		printVersion(line)
	case *shipped != "":
		err = printShipped(*shipped, os.Stdout)
	default:
		err = serve(line, *crds, *lenient)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// serve answers line by line and flushes each answer, so that a caller may talk to it.
func serve(line Line, crds string, lenient bool) error {
	oracle, err := NewOracle(line, crds, lenient)
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
			if err := encoder.Encode(answerText(oracle, text)); err != nil {
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

func answerText(oracle *Oracle, text string) Result {
	var c Case
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Result{Error: fmt.Sprintf("case: %v", err)}
	}
	return oracle.Answer(context.Background(), &c)
}

// printVersion tells from what the program was built.
func printVersion(line Line) {
	modules := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			switch dependency.Path {
			case "github.com/kubeflow/trainer/v2", "sigs.k8s.io/jobset", "k8s.io/api",
				"k8s.io/apiextensions-apiserver", "sigs.k8s.io/controller-runtime",
				"sigs.k8s.io/scheduler-plugins", "volcano.sh/apis":
				modules[dependency.Path] = dependency.Version
			}
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"line": line.Name, "modules": modules})
}
