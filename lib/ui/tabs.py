"""The tabs of the page in their order, each a row of its own file."""

from __future__ import annotations

from lib.ui import cost_tab, gpu_tpu_tab, live_tab, memory_tab, recommend_tab, space_tab, traffic_tab, train_tab, what_runs_tab
from lib.ui.events import Tab

TABS: tuple[Tab, ...] = (
    recommend_tab.TAB,
    what_runs_tab.TAB,
    memory_tab.TAB,
    train_tab.TAB,
    cost_tab.TAB,
    gpu_tpu_tab.TAB,
    traffic_tab.TAB,
    live_tab.TAB,
    space_tab.TAB,
)
TAB_NAMES = tuple(tab.name for tab in TABS)
"""Their names in addresses."""
BOX_FIELDS = {box: fields for tab in TABS for box, fields in tab.boxes.items()}
"""Numbers of boxes, as `Tab.boxes` has them."""
