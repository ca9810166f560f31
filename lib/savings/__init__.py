"""Ways to save: each one worked out for the visitor's own case with the real estimates, ranked by USD per month."""

from __future__ import annotations

from lib.savings.case import Case, NoWay, Savings, Way
from lib.savings.ways import ways_to_save

__all__ = ["Case", "NoWay", "Savings", "Way", "ways_to_save"]
