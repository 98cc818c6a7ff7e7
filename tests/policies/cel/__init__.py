"""Tests of the CEL shim."""
