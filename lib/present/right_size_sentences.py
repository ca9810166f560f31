"""The wording of what right-sizing found, by code; values in braces as in `lib.present.reason_sentences`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

RIGHT_SIZE: Mapping[str, str] = MappingProxyType(
    {
        "stay": "Stay on {current}: it is the pick for this model and workload.",
        "stay_does_it": "Stay on {current}: it does what is asked, with room to spare. For a new Space {pick} would be the pick.",
        "stay_declare_size": "The tier stays the same; its functions have to declare the size of {size}.",
        "saves": "Moving from {current} to {pick} saves {usd_per_month} a month per replica.",
        "costs_more": "Moving from {current} to {pick} costs {usd_per_month} a month more per replica.",
        "costs_the_same": "{pick} costs the same as {current}.",
        "current_does_not_do_it": "{current} does not do it, which is the reason to move to {pick}.",
        "current_not_judged": "{current} is not among the tiers offered today, so it was not judged.",
        "pick_keeps_precision": "{current} does it only with more compressed weights than {pick}.",
        "pick_has_room": "{current} does it with less than a tenth of its memory free; {pick} leaves room.",
        "pick_is_faster": "{current} does it too; {pick} is faster.",
        "pick_ranks_first": "{current} does it too; {pick} ranks before it for the priority that was asked for.",
        "pick_elsewhere": "{pick} is hardware of {platform}, not a tier of a Space: moving there is more than a switch.",
        "nothing_else_fits": "{current} does it; on the chosen platforms nothing does.",
        "nothing_fits_here": "Neither {current} nor anything on the chosen platforms does it; the rejected entries say why.",
    }
)
