"""Builds a model: its parameters, what its layers cache, what it holds while it runs."""
