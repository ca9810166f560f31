"""One law per file: plain quantities in, plain quantities out.

Laws of speed: time of a step, of a prompt, of many requests at once.

Every law takes plain quantities, one number or an array of them (one entry per case), so that the calibration
(`scripts/calibrate.py`) and an answer to a visitor run through the same lines. Fitted constants arrive as arguments; they are fitted
by engine and card class and never by model.

The laws of money, one to a file: amounts of USD per month out of prices, hours, bytes, requests and tokens, all `Decimal`.
"""

from __future__ import annotations
