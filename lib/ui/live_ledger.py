"""What has been measured: every prediction against its measurement, the newest rows, and the whole ledger as a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

from lib.errors import AdvisorError
from lib.present.live_ledger import FIGURES, draw_scatter, newest_table, scatter_head, storage_line
from lib.present.markup import escape

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # type: ignore[import-untyped]
    from starlette.requests import Request

    from lib.service.app import Services
    from lib.service.ledger import Format

MEDIA: dict[Format, str] = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
_LABELS: dict[Format, str] = {"csv": "Download CSV", "parquet": "Download Parquet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """The parts of the ledger."""

    kept: gr.HTML
    box: gr.Column
    figure: gr.Radio
    head: gr.HTML
    chart: gr.Plot
    rows: gr.HTML

    def outputs(self) -> list[Any]:
        """Where an answer goes, in the order of `LedgerMarkup.updates`."""
        return [self.kept, self.box, self.head, self.chart, self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMarkup:
    """The ledger as markup and a picture; without rows only the line that says so."""

    kept: str
    head: str = ""
    chart: Figure | None = None
    rows: str = ""

    def updates(self) -> list[Any]:
        """One value for each of `LedgerView.outputs`."""
        return [
            self.kept,
            gr.update(visible=bool(self.rows)),
            self.head,
            gr.update(value=self.chart, visible=self.chart is not None),
            self.rows,
        ]


def build() -> LedgerView:
    """The layout of the ledger."""
    gr.HTML("<h2>What has been measured</h2>", elem_classes="live-head")
    with gr.Column(elem_classes="answers"):
        kept = gr.HTML(elem_id="ledger-kept")
        with gr.Column(elem_classes="chart", elem_id="ledger-chart", visible=False) as box:
            figure = gr.Radio(list(FIGURES), value="peak_bytes", label="Show", elem_classes="segments ledger-figure")
            head = gr.HTML()
            chart = gr.Plot(label="Predicted against measured", show_label=False, visible=False)
        rows = gr.HTML(elem_id="ledger-rows")
    return LedgerView(kept=kept, box=box, figure=figure, head=head, chart=chart, rows=rows)


def ledger_markup(services: Services, figure: str) -> LedgerMarkup:
    """The ledger as it is now."""
    wanted = figure if figure in {value for _, value in FIGURES} else "peak_bytes"
    ledger = services.live.ledger
    rows, kept = ledger.rows(), storage_line(ledger.status())
    if not rows:
        return LedgerMarkup(kept=kept)
    return LedgerMarkup(kept=kept + downloads(), head=scatter_head(rows, wanted), chart=draw_scatter(rows, wanted), rows=newest_table(rows))


def downloads() -> str:
    """Links to the whole ledger; the files are made when they are asked for."""
    links = "".join(f'<a class="act" href="ledger.{form}" download="measurements.{form}">{escape(_LABELS[form])}</a>' for form in MEDIA)
    return f'<div class="actions" role="group" aria-label="Download">{links}</div>'


def wire(view: LedgerView, services: Services) -> None:
    """Another figure draws anew."""

    def changed(figure: str) -> list[Any]:
        return ledger_markup(services, figure).updates()

    view.figure.input(
        changed, view.figure, view.outputs(), queue=False, show_progress="hidden", api_name="ledger_figure", api_visibility="private"
    )


def routes(services: Services) -> list[Route]:
    """The routes of the files: read-only, without personal data."""

    def answers(form: Format) -> Any:
        async def answer(_: Request) -> Response:
            try:
                content = await run_in_threadpool(services.live.ledger.export, form)
            except AdvisorError as refused:
                return Response(str(refused), status_code=503, media_type="text/plain")
            return Response(content, media_type=MEDIA[form], headers={"Content-Disposition": f'attachment; filename="measurements.{form}"'})

        return answer

    return [Route(f"/ledger.{form}", answers(form), methods=["GET"]) for form in MEDIA]
