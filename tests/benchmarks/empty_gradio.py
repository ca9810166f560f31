"""A Gradio app with one field and one endpoint: what Gradio itself costs, for `bench_load.py` to put beside ours."""

from __future__ import annotations

import gradio as gr


def double(number: float) -> float:
    """The least that an endpoint can do."""
    return 2 * number


with gr.Blocks(analytics_enabled=False) as demo:
    gr.Textbox(label="Field")
    gr.api(double, api_name="double", queue=False)
    gr.api(double, api_name="queued")

if __name__ == "__main__":
    demo.queue(default_concurrency_limit=40).launch(ssr_mode=False, enable_monitoring=False)
