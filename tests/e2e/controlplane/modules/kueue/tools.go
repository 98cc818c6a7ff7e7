//go:build tools

// Package tools names the program, so that go.mod and go.sum cover what it needs.
package tools

import _ "sigs.k8s.io/kueue/cmd/kueue"
