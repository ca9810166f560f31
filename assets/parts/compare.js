  // The choice as the field `compare` has it: hardware of ticked rows, and other models.
  let compared = [];
  const readCompared = (values) => {
    compared = String(values[COMPARE] ?? "").split(",").filter(Boolean);
    tickRows();
  };
  const tickRows = () => {
    for (const tick of document.querySelectorAll("[data-tick]")) {
      const chosen = compared.includes(tick.dataset.tick);
      if (tick.checked !== chosen) tick.checked = chosen;
    }
  };
  const compareNow = (items) => {
    compared = items;
    tickRows();
    document.querySelector("#compare-take").click();
  };
  window.advisor.compared = () => compared.join(",");
  document.addEventListener("change", ({ target }) => {
    if (!(target instanceof Element && target.matches("[data-tick]"))) return;
    const others = compared.filter((one) => one !== target.dataset.tick);
    compareNow(target.checked ? [...others, target.dataset.tick] : others);
  });
  document.addEventListener("submit", (event) => {
    if (!(event.target instanceof Element && event.target.matches("[data-compare-model]"))) return;
    event.preventDefault();
    const field = event.target.querySelector("input"), name = field.value.trim().replaceAll(",", "");
    if (!name || isToken(name)) return;
    field.value = "";
    compareNow([...compared.filter((one) => one !== name), name]);
  }, true);
  document.addEventListener("click", (event) => {
    const act = event.target instanceof Element ? event.target.closest("[data-drop], [data-show], [data-picture], [data-print]") : null;
    if (!act) return;
    const { drop, show } = act.dataset;
    if (drop !== undefined) {
      compareNow(drop ? compared.filter((one) => one !== drop) : []);
      document.querySelector("#ranked [data-tick]")?.focus({ preventScroll: true }); // the button goes with its answer
    } else if (show) {
      const card = document.querySelector(show);
      card.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
      card.focus({ preventScroll: true });
    } else if (act.dataset.print !== undefined) {
      document.documentElement.classList.add("prints-comparison");
      window.print();
      document.documentElement.classList.remove("prints-comparison");
    } else savePicture(act.closest(".card"));
  });

  // A card with a table as a picture on white: its finding, the rows, and where it can be asked again.
  const WIDE = 1200, EDGE = 40, FIRST = 280, LINE = 24, INK = "#1d2530", GREY = "#515a66";
  const wrapText = (pen, text, width) => {
    const lines = [];
    for (const word of text.split(/\s+/)) {
      const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
      if (lines.length && pen.measureText(longer).width <= width) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines;
  };
  // A cell in lines, each with its font and colour.
  const cellLines = (pen, cell, width, bold) => {
    const copy = cell.cloneNode(true), small = copy.querySelector("small");
    copy.querySelectorAll("small, button, .sr").forEach((one) => one.remove());
    const parts = [[copy.textContent.trim(), `${bold || copy.querySelector("strong") ? 600 : 400} 17px system-ui, sans-serif`, INK]];
    if (small) parts.push([small.textContent.trim(), "400 14px system-ui, sans-serif", GREY]);
    return parts.flatMap(([text, font, colour]) => {
      pen.font = font;
      return wrapText(pen, text, width).map((line) => ({ line, font, colour }));
    });
  };
  const drawCard = (pen, card, draws) => {
    const rows = [...card.querySelector("table").rows], width = (WIDE - 2 * EDGE - FIRST) / (rows[0].cells.length - 1);
    let y = EDGE + 28;
    const write = (lines, x, from) => lines.forEach(({ line, font, colour }, n) => {
      Object.assign(pen, { font, fillStyle: colour });
      if (draws) pen.fillText(line, x, from + n * LINE);
    });
    const paragraph = (text, font, colour) => {
      pen.font = font;
      const lines = wrapText(pen, text, WIDE - 2 * EDGE).map((line) => ({ line, font, colour }));
      write(lines, EDGE, y);
      y += lines.length * LINE + 10;
    };
    paragraph(card.querySelector("h2").textContent, "700 24px system-ui, sans-serif", INK);
    for (const note of card.querySelectorAll(":scope > p")) paragraph(note.textContent, "400 15px system-ui, sans-serif", GREY);
    y += 10;
    for (const row of rows) {
      const cells = [...row.cells].map((cell, n) => cellLines(pen, cell, (n ? width : FIRST) - 16, row.parentElement.tagName === "THEAD"));
      cells.forEach((lines, n) => write(lines, n ? EDGE + FIRST + (n - 1) * width : EDGE, y));
      y += Math.max(...cells.map((lines) => lines.length)) * LINE + 12;
      if (draws) { pen.fillStyle = "#dfe3e8"; pen.fillRect(EDGE, y - 26, WIDE - 2 * EDGE, 1); }
    }
    paragraph(`${new Date().toISOString().slice(0, 10)} · ${MAP.home || location.origin + location.pathname}`, "400 14px system-ui, sans-serif", GREY);
    return y;
  };
  const savePicture = (card) => {
    const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
    const high = drawCard(pen, card, false);
    Object.assign(canvas, { width: 2 * WIDE, height: 2 * high }); // which also forgets the pen's settings
    pen.scale(2, 2);
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, WIDE, high);
    drawCard(pen, card, true);
    canvas.toBlob((picture) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(picture);
      link.download = `${card.querySelector("h2").textContent.slice(0, 80)}.png`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  };
