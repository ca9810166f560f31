"""The Space: `python app.py` serves the page, the API and the MCP tools.

A table of contents. Settings that Gradio reads while it is imported come first, then `spaces` (which must precede anything that could
touch CUDA), then the services, the page on top of them, and the launch. torch and transformers are imported after the first page has
been served.
"""

from __future__ import annotations

import gc
import os

if __name__ == "__main__":
    gc.disable()  # what a start makes stays: to look through it for garbage again and again took 0.5 s. `after_launch` turns it on

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # nothing is asked of third parties
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000000000")  # else a summary over all past calls after every call
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "1")

import spaces  # type: ignore[import-untyped]  # noqa: F401  on ZeroGPU it has to be first

from lib.live.process import write_lines
from lib.service.app import services
from lib.ui.http.callers import current_caller
from lib.ui.http.serve import after_launch, launch_arguments, share_process
from lib.ui.page import build_page, launch_options

write_lines()
share_process()
advisor = services(current_caller)
advisor.place_demo_model()  # on ZeroGPU the chat's model has to be on "cuda" before the launch; elsewhere this does nothing
demo = build_page(advisor)

if __name__ == "__main__":
    demo.launch(**launch_options(), **launch_arguments(demo, advisor), prevent_thread_lock=True)
    write_lines()  # the web server has set up its own meanwhile
    after_launch(demo, advisor.warm_up)
    demo.block_thread()
