"""Stationmaster's plugins and the framework that runs them."""
