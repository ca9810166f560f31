"""What a pasted error, start log, metric or `nvidia-smi` table says.

    explain_text("... CUDA out of memory. Tried to allocate 2.00 GiB ...").code

`text` masks secrets and makes the text searchable, `rows` reads the messages that are known (`lib/data/pasted_messages.yaml`), `match` finds
them with their numbers, `decide` chooses the cause, and `names` finds model, hardware and flags. Nothing here reads a clock, a file of the
visitor's or the network, and nothing that was pasted is kept.
"""

from lib.explain.decide import Explanation, OtherCause, explain_text
from lib.explain.rows import PROGRAMS
from lib.explain.text import MAX_BYTES, mask_secrets

__all__ = ["MAX_BYTES", "PROGRAMS", "Explanation", "OtherCause", "explain_text", "mask_secrets"]
