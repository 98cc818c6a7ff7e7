//go:build tools

// Package tools names the program, so that go.mod and go.sum cover what it needs.
package tools

import _ "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"
