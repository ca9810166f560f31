"""What every test of the page in Chromium uses: how long to wait, and scripts that list what nobody could read or use."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page

WAIT_MS = 90_000  # a busy machine takes many times as long as a quiet one
Open = Callable[..., Page]

# Two frames and a moment without work: Gradio hands the fields of a part that was just opened their first values once more.
SETTLED = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => requestIdleCallback(done))))"""

# No colour is on its way to another one.
STILL = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => Promise.all(
  document.getAnimations().filter(e => e instanceof CSSTransition).map(e => e.finished.catch(() => null))).then(() => done()))))"""

# WCAG 2: contrast of every visible text with the nearest opaque background behind it, worst first.
CONTRAST = """() => {
  const channel = c => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
  const rgba = s => { const m = s.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const light = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
  const back = e => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; }
                      return rgba(getComputedStyle(document.body).backgroundColor); };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || !e.checkVisibility({checkOpacity: true, checkVisibilityCSS: true})) continue;
    if (e.closest("svg, script, style, [aria-hidden=true], .sr")) continue;
    const style = getComputedStyle(e), a = light(rgba(style.color)), b = light(back(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) found.push([ratio.toFixed(2), walk.currentNode.textContent.trim().slice(0, 40)]);
  }
  return found.sort((x, y) => x[0] - y[0]);
}"""

# A control without a name: neither label, nor aria-label, nor text.
NAMELESS = """() => [...document.querySelectorAll("input, select, textarea, button, a[href]")]
  .filter(e => e.checkVisibility() && e.type !== "hidden")
  .filter(e => !(e.labels?.length || e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.textContent.trim() || e.title))
  .map(e => e.outerHTML.slice(0, 120))"""

# Elements that stick out of the window on the right, but for those in a part that scrolls by itself.
BEYOND = """() => [...document.querySelectorAll("main *")].filter(e => e.checkVisibility()
  && !e.closest("svg, .sr, .visually-hidden, thead")
  && !(part => part && getComputedStyle(part).overflowX === "auto")(e.closest(".scroll, .examples, .model-line, .actions"))
  && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 90))"""

# Opens the folds that are visible: settings of the workload, and on a narrow screen whole panels.
UNFOLD = """() => document.querySelectorAll('[data-fold][aria-expanded="false"]').forEach(e => e.checkVisibility() && e.click())"""

# Opens every folded part of the page.
OPEN_ALL = """() => document.querySelectorAll(".quiet-accordion > button:not(.open), details:not([open]) > summary")
  .forEach(e => e.checkVisibility() && e.click())"""


def open_box(page: Page, name: str | re.Pattern[str]) -> None:
    """Open a folded part of the page, the workload's settings before it, and wait until what is typed into its fields stays.

    Gradio builds the fields at the first opening and, one frame after they are drawn, sets them to their first values again
    (`render_previously_invisible_children` of its app tree). A test is fast enough to fill a field in between.
    """
    page.evaluate(UNFOLD)
    page.get_by_role("button", name=name).click()
    page.evaluate(SETTLED)


def draw_charts(page: Page) -> None:
    """Bring each chart of the shown tab into view, which draws it and writes its table, and wait until it stands."""
    page.evaluate(SETTLED)
    for chart in page.locator("[role=tabpanel] :is(.chart, #curve):visible").all():
        chart.scroll_into_view_if_needed()
        chart.locator(".main-svg").first.wait_for()
    page.evaluate(SETTLED)
