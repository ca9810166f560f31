"""Ranks offers for a model and a workload, and says why."""

from __future__ import annotations

from lib.advisor.recommend import recommend
from lib.advisor.result import Cost, Entry, ProviderOption, Recommendation, Rejection, Speed
from lib.provenance import Reason

__all__ = ["Cost", "Entry", "ProviderOption", "Reason", "Recommendation", "Rejection", "Speed", "recommend"]
