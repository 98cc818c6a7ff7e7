"""Tests of plugins."""
