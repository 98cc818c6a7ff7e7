"""Tests of plugins.framework."""
