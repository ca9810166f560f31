"""Reads a pasted error, start log, metric or `nvidia-smi` table.

    explain_text("... CUDA out of memory. Tried to allocate 2.00 GiB ...").code

`text` masks secrets and makes the text searchable. `rows` reads the known messages (`lib/data/pasted_messages.yaml`), and `match` finds
them with their numbers. `decide` chooses the cause; `names` finds models, hardware and flags. Nothing here uses the network or stores the
pasted text.
"""

from lib.explain.decide import Explanation, OtherCause, Reading, decide_cause, explain_text, read_text
from lib.explain.rows import PROGRAMS
from lib.explain.text import MAX_BYTES, mask_secrets

__all__ = ["MAX_BYTES", "PROGRAMS", "Explanation", "OtherCause", "Reading", "decide_cause", "explain_text", "mask_secrets", "read_text"]
