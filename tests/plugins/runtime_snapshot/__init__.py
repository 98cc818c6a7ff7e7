"""Tests of plugins.runtime_snapshot."""
