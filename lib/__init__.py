"""Spaces Hardware Advisor: from a model and a workload to the hardware that runs it."""
