() => {
  // Fields, tabs and the parts that answer, as lib/ui/theme.py lists them.
  const MAP = __PAGE__;
  const STILL_MS = 250; // the fields have to be unchanged for so long
  const ticks = MAP.panels.map(() => 0), answered = {}, seen = new Set();
  let waiting, tab = null, open = false, leaving = false;

  const tabShown = () => MAP.tabs[document.querySelector('button[role="tab"][aria-selected="true"]')?.textContent.trim()] ?? "recommend";
  const isSame = (a, b) => String(a) === String(b) || (a !== null && a !== "" && b !== "" && !isNaN(a) && !isNaN(b) && Number(a) === Number(b));
  const textOf = (value) => (Array.isArray(value) ? value.join(",") : String(value));

  // A token, in whatever field it was pasted, gets into no address, for that is kept, logged and passed on.
  const isToken = (text) => /^\s*(hf|api_org)_[^/]*$/.test(text) || /(hf|api_org)(_|%5F)([A-Za-z0-9]{20}|oauth_|jwt_)|(gh[pousr]_|github_pat_|glpat-|AKIA|AIza)[A-Za-z0-9_-]{16}/.test(text);
  const nameable = (text) => (isToken(text) ? "" : text);
  // What the address says: the tab, the model, and what differs from the defaults.
  const queryOf = (reference, typed, values, bad) => {
    const query = new URLSearchParams();
    if (tab !== "recommend") query.set("tab", tab);
    const model = nameable(reference || typed || "");
    if (model.trimStart().startsWith("{") || model.length > MAP.longest) query.set("config", "pasted");
    else if (model) query.set("model", model);
    MAP.fields.forEach((field, n) => {
      if (values[n] === null || values[n] === undefined || isSame(values[n], field.default) || [...bad, "trace"].includes(field.name)) return;
      if (!isToken(textOf(values[n]))) query.set(field.name, textOf(values[n]));
    });
    const kept = new URLSearchParams(location.search);
    for (const name of ["space", "tier", "__theme", "units"]) {
      if (kept.has(name) && (name === "__theme" || name === "units" || tab === "space") && !isToken(kept.get(name))) query.set(name, kept.get(name));
    }
    return "?" + query.toString().replaceAll("%2F", "/").replaceAll("%3A", ":").replaceAll("%2C", ",");
  };
  const address = (query, moved) => {
    if (leaving || query === (location.search || "?") || (!location.search && query === `?model=${MAP.example}`)) return;
    history[moved ? "pushState" : "replaceState"](null, "", query);
    keepQuestion(query);
    if (window.parent !== window) window.parent.postMessage({ queryString: query.slice(1) }, "https://huggingface.co");
  };

  // The last questions, in this browser only: one for each model and tab.
  const LAST = 10;
  const readQuestions = () => {
    try {
      return JSON.parse(localStorage.getItem("questions") ?? "[]").filter((one) => typeof one?.label === "string" && typeof one.query === "string");
    } catch { return []; }
  };
  const keepQuestion = (query) => {
    const asked = new URLSearchParams(query), model = asked.get("model") ?? "";
    if (!model) return;
    const label = `${model} · ${Object.keys(MAP.tabs).find((word) => MAP.tabs[word] === (asked.get("tab") ?? "recommend"))}`;
    const others = readQuestions().filter((one) => one.label !== label);
    try { localStorage.setItem("questions", JSON.stringify([{ label, query }, ...others].slice(0, LAST))); } catch { /* a browser that keeps nothing */ }
  };

  const formatNumber = (number) => number.toLocaleString("en", { maximumFractionDigits: 6 });
  // A number out of its range is said beside its field. Returns the bad ones: what does not show its reason stops no answer (the service
  // refuses it in words), and a number of a box only that box's.
  const findBad = () => MAP.numbers.filter((field) => {
    const box = document.getElementById(`q-${field.name}`);
    const input = box?.querySelector('input[type="number"]');
    if (!input) return false;
    const low = input.min === "" ? field.low : Number(input.min), high = input.max === "" ? field.high : Number(input.max);
    const bad = input.value !== "" && !(Number(input.value) >= low && Number(input.value) <= high);
    let note = box.querySelector(".field-error");
    if (bad && !note) {
      note = box.appendChild(document.createElement("p"));
      note.className = "field-error";
      note.id = `q-${field.name}-error`;
      note.setAttribute("role", "alert");
    }
    if (bad) note.textContent = `${field.label} was ${input.value}. Accepted: ${formatNumber(low)} to ${formatNumber(high)}.`;
    else note?.remove();
    input.toggleAttribute("aria-invalid", bad);
    if (bad) input.setAttribute("aria-describedby", `q-${field.name}-error`);
    else input.removeAttribute("aria-describedby");
    field.shown = input.checkVisibility();
    return bad;
  });
  const panelOf = (fold) => fold.closest(fold.dataset.fold) ?? document.querySelector(fold.dataset.fold);
  // A folded panel that holds a bad number says so on its bar.
  const markFolds = (bad) => {
    for (const fold of document.querySelectorAll("[data-fold]")) {
      const inside = bad.filter((one) => !one.shown).map((one) => panelOf(fold)?.querySelector(`#q-${one.name} .field-error`)?.textContent);
      const words = fold.checkVisibility() ? inside.filter(Boolean).join(" ") : "";
      const marked = fold.querySelector(".field-error") ?? (words && fold.appendChild(document.createElement("span")));
      if (!words) marked?.remove?.();
      else if (marked.textContent !== words) Object.assign(marked, { className: "field-error", textContent: words });
    }
  };

  const isNamed = (part) => !part.named || new URLSearchParams(location.search).has(part.named);
  const shows = (part) => {
    // One that the address names no more is asked once again, which empties it.
    if (part.tab !== tab || (!isNamed(part) && (part.once || answered[part.name] === undefined))) return false;
    if (!part.box) return true;
    const box = document.querySelector(part.box);
    return box?.matches(".chart, #curve") ? seen.has(part.name) : Boolean(box?.querySelector(":scope > button.open"));
  };
  // The bar of the workload's fold: the values, without the defaults of rare fields.
  const wordWorkload = (values) => {
    const at = Object.fromEntries(MAP.fields.map((field, n) => [field.name, values[n]]));
    const digits = (value) => Number(value ?? 0).toLocaleString("en");
    // Cards are counted: an offer has a number of its own, and a Mac (M1-Pro-16GB) is one.
    const counted = (hardware) => hardware !== "auto" && !/:|^M\d/.test(hardware);
    const looked = tabShown() === "what-runs" ? at.have : at.hardware;
    document.documentElement.classList.toggle("owns", counted(at.hardware));
    document.documentElement.classList.toggle("owns-machine", counted(looked ?? "auto"));
    document.querySelector("#workload")?.toggleAttribute("data-left", MAP.left.includes(tabShown()));
    // Lengths that are not stated: the rule of `prompt_and_output_tokens` in lib/workload.py.
    const { output, prompt, share } = MAP.usual, context = Number(at.context ?? 0);
    const answer = Number(at.answer) || Math.min(output, Math.max(1, Math.floor(context / 2)));
    const asked = Number(at.prompt) || Math.min(Math.max(prompt, Math.floor(context * share)), Math.max(1, context - answer));
    for (const [name, tokens] of [["prompt", asked], ["answer", answer]]) wordAutomatic(name, Number(at[name]) ? "" : digits(tokens));
    const media = document.querySelector("#facts [data-media]")?.dataset.media.split(" ") ?? ["context", "prompt", "answer"];
    const said = (medium, ...words) => (media.includes(medium) ? words : []);
    const automatic = (value) => (Number(value) ? "" : " (automatic)");
    const stated = (value, words) => (value && value !== "auto" && value !== "0" ? [words] : []);
    const words = [
      ...said("context", `${digits(at.context)} tokens of context`),
      `${digits(at.requests)} requests a day`,
      ...said("prompt", `prompt ${digits(asked)}${automatic(at.prompt)}`),
      ...said("answer", `output ${digits(answer)}${automatic(at.answer)}`),
      ...said("pictures", Number(at.width) && Number(at.height) ? `${digits(at.width)} × ${digits(at.height)} pixels` : "automatic size"),
      ...(Number(at.hours) === 24 ? [] : [`${digits(at.hours)} hours a day`]),
      ...stated(String(at.daily_visitors ?? 0), `${digits(at.daily_visitors)} visitors a day`),
      ...stated(at.precision, at.precision),
      ...stated(at.engine, at.engine),
      ...stated(at.serving, at.serving),
      ...stated(at.ram, at.ram),
      ...stated(String(at.budget ?? 0), `at most $${digits(at.budget)} a month`),
      ...stated(String(at.speed ?? 0), `at least ${digits(at.speed)} tokens/s`),
      ...stated(String(at.ttft ?? 0), `first token within ${digits(at.ttft)} s`),
    ];
    const own = !at.hardware.includes(":"), cards = counted(at.hardware) && Number(at.cards) > 1 ? `${at.cards} × ` : "";
    const named = own ? `${cards}${at.hardware.replaceAll("-", " ")}` : at.hardware.split(":").reverse().join(" · ");
    for (const [part, text] of [[".folded", words.join(" · ")], ["[data-hardware]", `Hardware: ${at.hardware === "auto" ? "we choose" : named}`]]) {
      const shown = document.querySelector(`#more-bar ${part}`);
      if (shown && shown.textContent !== text) shown.textContent = text;
    }
  };
  // The bounds of sliders as all other numbers. Svelte keeps the text node and writes new bounds into it.
  const wordBounds = () => {
    for (const bound of document.querySelectorAll(":is(.min_value, .max_value)")) {
      if (/^\d{4,}$/.test(bound.textContent)) bound.firstChild.nodeValue = Number(bound.textContent).toLocaleString("en");
    }
  };
  // A length that is not stated shows its value in its field.
  const wordAutomatic = (name, tokens) => {
    const note = document.querySelector(`#q-${name} [data-testid="block-info"] + div`), words = tokens ? `0: automatic (${tokens})` : "0: automatic";
    if (note && note.textContent.trim() !== words) note.textContent = words;
  };
  // The columns of the comparison are a question of its panel alone.
  const COMPARE = MAP.fields.findIndex((field) => field.name === "compare");
  const questionOf = (part, reference, values) => JSON.stringify([reference, ...values.filter((_, n) => part === "compare" || n !== COMPARE)]);
  const raise = (reference, typed, ...values) => {
    const before = tab;
    tab = tabShown();
    rove();
    wordWorkload(values);
    wordBounds();
    const bad = findBad();
    markFolds(bad);
    const stopped = bad.filter((one) => one.shown).map((one) => one.box);
    if (stopped.includes("")) return [...ticks];
    address(queryOf(reference, typed, values, bad.map((one) => one.name)), before !== null && before !== tab);
    MAP.panels.forEach((part, n) => {
      const asked = part.once ? "once" : questionOf(part.name, reference, values);
      if (!shows(part) || stopped.includes(part.name) || answered[part.name] === asked) return;
      answered[part.name] = isNamed(part) ? asked : undefined;
      ticks[n] += 1;
    });
    return [...ticks];
  };
  // The layer over the page (first.html) goes when the shown tab has its answer or progress, or when that takes too long.
  let covered = true;
  const reveal = () => {
    covered = false;
    requestAnimationFrame(() => requestAnimationFrame(() => {
      document.documentElement.classList.add("answered");
      document.getElementById("first")?.remove();
    }));
  };
  // The page without a link has the example's answer from the start; a link's page waits for the fields and the answer of the link.
  const linked = Boolean(document.querySelector("#first.linked"));
  const revealAnswer = () => {
    if (!covered || !(open || !linked) || !answersHere()) return;
    if (!open) wordWorkload(MAP.fields.map((field) => field.default));
    reveal();
  };
  const answersHere = () => !MAP.panels.some((part) => part.tab === (tab ?? "recommend") && !part.box && !part.once)
    || [...document.querySelectorAll("#facts .refusal, .answers :is(.card, .refusal, progress)")].some((one) => one.checkVisibility());
  setTimeout(reveal, 4_000); // where this script fails, first.html does the same by its style
  // A tab that has no model to ask about gives the reason why the named one cannot be used, with what to do.
  const repeatRefusal = () => {
    const refused = document.querySelector("#facts .refusal");
    if (!refused) return;
    const reason = document.querySelector("#facts :has(> .refusal)").innerHTML.replaceAll('role="alert"', "");
    for (const note of document.querySelectorAll(".hint[data-no-model]")) {
      if (note.reason !== reason) note.innerHTML = note.reason = reason;
    }
  };
  window.advisor = {
    // The fields of a link are filled by the server, which a raised number asks for.
    start: () => Number(linked),
    now: (...values) => {
      clearTimeout(waiting);
      if (open) return raise(...values);
      return linked ? [...ticks] : window.advisor.opened(...values);
    },
    opened: (...values) => {
      clearTimeout(waiting);
      open = true;
      tab = new URLSearchParams(location.search).get("tab") ?? "recommend";
      if (!Object.values(MAP.tabs).includes(tab)) tab = "recommend";
      readCompared(values.slice(2));
      // The answer is the link's or the example's: fields that a visitor has changed meanwhile are asked anew.
      const [reference, , ...asked] = values, defaults = MAP.fields.map((field) => field.default);
      const question = linked ? [reference, asked] : [MAP.example, [...defaults, ...asked.slice(defaults.length)]];
      if (tab === "recommend") answered.recommend = questionOf("recommend", ...question);
      const raised = raise(...values);
      revealAnswer();
      return raised;
    },
    go: () => wanted.hardware,
    // Before the sign-in, whose script adds this query to its own: afterwards the tab and the Space are back.
    remember: (space) => history.replaceState(null, "", `?tab=space${nameable(space ?? "") && encodeURIComponent(`&space=${encodeURIComponent(space)}`)}`),
    // A config counts while its box and the fold around it are open, also on a tab that hides the workload.
    find: (model, config, ...rest) => [model, document.querySelector("#more:has(> button.open) #paste > button.open") ? config : "", ...rest],
  };
  const settle = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => document.querySelector("#settle")?.click(), STILL_MS);
  };
__PARTS__
  // A visitor's changes, as events of the browser: Gradio looks through its own events for each component of the page. A line of text
  // counts once it is entered or left (half a flag is refused), a list when it is left, which a choice does too. The number box of a
  // slider takes any value while it is typed, and puts it into the range when it is left. Settling asks nothing where nothing changed.
  const ELSEWHERE = "#model, #config, #message, #explain-box, #space, [type=password], [type=file], [data-search], [data-tick], .compare-model *";
  for (const kind of ["input", "change", "focusout"]) {
    document.addEventListener(kind, ({ target }) => {
      if (!(target instanceof HTMLElement) || target.closest(ELSEWHERE)) return;
      const list = target.matches('[role="combobox"]'), line = !list && target.matches('[type="text"]');
      if (kind === (line ? "change" : list ? "focusout" : "input") || (kind === "focusout" && target.matches('[type="number"]'))) settle();
    });
  }
  const inView = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const part = MAP.panels.find((one) => one.box === `#${entry.target.id}`);
      if (!entry.isIntersecting || !part || seen.has(part.name)) continue;
      seen.add(part.name);
      settle();
    }
  }, { rootMargin: "200px" });
  const watched = new WeakSet();
  const watch = () => {
    for (const part of MAP.panels) {
      const box = part.box ? document.querySelector(part.box) : null;
      if (!box?.matches(".chart, #curve") || watched.has(box)) continue;
      watched.add(box);
      inView.observe(box);
    }
  };
  // A row's link: its hardware and its tab, on this page; with a key held, it is a link like any other.
  let wanted = {};
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[data-go]") : null;
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const query = new URLSearchParams(link.getAttribute("href"));
    wanted = { hardware: query.get("hardware") ?? "auto", tab: query.get("tab") };
    document.querySelector("#go").click();
    setTimeout(() => {
      [...document.querySelectorAll('button[role="tab"]')].find((one) => MAP.tabs[one.textContent.trim()] === wanted.tab)?.click();
      document.querySelector("#tabs").scrollIntoView();
    }, 50);
  });
  // The workload's fold is an accordion of Gradio, which builds the fields at the first opening; other panels unfold on narrow screens.
  const toggleFold = (fold) => {
    const panel = panelOf(fold), button = panel.querySelector(":scope > button.label-wrap");
    const opened = button ? !button.classList.contains("open") : panel.toggleAttribute("data-open");
    button?.click();
    fold.setAttribute("aria-expanded", String(opened));
    if (button) settle(); // the fields that are built then show their automatic values
  };
  const openHardware = () => {
    const fold = document.querySelector('[data-fold="#more"]');
    if (fold.getAttribute("aria-expanded") === "false") toggleFold(fold);
    let frames = 0;
    const focus = () => {
      const field = document.querySelector("#q-hardware input");
      if (field?.checkVisibility() && frames > 3) { // Gradio sets new fields to their values once more in the next frame
        field.closest(".block").scrollIntoView({ block: "start" }); // so that the list opens below its field
        field.focus({ preventScroll: true });
      }
      else if ((frames += 1) < 100) requestAnimationFrame(focus);
    };
    focus();
  };
  // Boxes that open.
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    if (target?.closest('[role="tab"]') || MAP.panels.some((part) => part.box && target?.closest(`${part.box} > button`))) settle();
    const fold = target?.closest("[data-fold]");
    if (target?.closest("[data-hardware]")) openHardware();
    if (fold) {
      toggleFold(fold);
      markFolds(findBad());
      window.dispatchEvent(new Event("resize")); // a chart that was drawn while folded takes its width
    }
    if (target?.closest("#check")) {
      const answer = [...document.querySelectorAll(".answers, #live")].find((one) => one.checkVisibility());
      if (answer && answer.getBoundingClientRect().top > 0.6 * innerHeight) answer.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    }
  });
  // The first stop of the keyboard: past model, workload and tabs.
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element && event.target.closest("[data-skip]"))) return;
    const panel = [...document.querySelectorAll("[role=tabpanel]")].find((one) => one.checkVisibility());
    const answer = panel?.querySelector(".card, .refusal, .hint") ?? panel;
    answer?.setAttribute("tabindex", "-1");
    answer?.focus();
  });
  // Tables: a head sorts by the keys of its column, the field above keeps the rows with its words, a button shows the rest.
  const wordsOf = (row) => `${row.textContent} ${row.querySelector("[data-words]")?.dataset.words ?? ""}`.toLowerCase();
  const showRows = (box) => {
    const table = box.querySelector("table"), words = (box.querySelector("[data-search]")?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const first = words.length || table.dataset.all ? Infinity : Number(table.dataset.first) || Infinity;
    const rows = [...table.tBodies[0].rows], wanted = rows.filter((row) => words.every((word) => wordsOf(row).includes(word)));
    rows.forEach((row) => { row.hidden = wanted.indexOf(row) < 0 || wanted.indexOf(row) >= first; });
    const count = box.querySelector("[data-of]");
    if (count) count.textContent = words.length ? `${wanted.length} of ${rows.length}` : "";
    const more = box.querySelector("[data-more]");
    if (more) more.hidden = Boolean(words.length || table.dataset.all);
    keepStop(table.tBodies[0]);
  };
  // How a visitor sorted each table, and what is searched in it: an answer that comes later is shown in the same way.
  const tableStates = {};
  const stateOf = (box) => (tableStates[`${box.closest("[id]")?.id} ${box.querySelector("table").className}`] ??= {});
  const restoreTables = () => {
    for (const box of document.querySelectorAll(".table-box:not([data-handled])")) {
      box.dataset.handled = "yes";
      const { column, down, words, all } = stateOf(box), search = box.querySelector("[data-search]");
      const head = [...box.querySelectorAll("thead th")].find((one) => one.textContent === column);
      if (words && search) search.value = words;
      if (all) box.querySelector("table").dataset.all = all;
      if (head) sortRows(head, down);
      else if (words || all) showRows(box);
    }
  };
  const sortRows = (head, down = head.getAttribute("aria-sort") === "ascending") => {
    const table = head.closest("table"), at = head.cellIndex;
    Object.assign(stateOf(table.closest(".table-box")), { column: head.textContent, down });
    for (const one of table.tHead.rows[0].cells) one.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const keyed = [...table.tBodies[0].rows].map((row) => [row.cells[at].dataset.key ?? "", row]);
    const compare = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b) : Number(a) - Number(b));
    keyed.sort(([a], [b]) => (a === "" || b === "" ? (a === "") - (b === "") : (down ? -1 : 1) * compare(a, b)));
    table.tBodies[0].append(...keyed.map(([, row]) => row));
    showRows(table.closest(".table-box"));
  };
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null, more = target?.closest("[data-more]");
    const head = target?.closest("button.sort")?.closest("th");
    if (head) sortRows(head);
    if (!more) return;
    const box = more.closest(".table-box"), table = box.querySelector("table");
    stateOf(box).all = table.dataset.all = "yes";
    showRows(box);
    table.setAttribute("tabindex", "-1");
    table.focus({ preventScroll: true });
  });
  document.addEventListener("input", (event) => {
    if (!(event.target instanceof Element && event.target.matches("[data-search]"))) return;
    const box = event.target.closest(".table-box");
    stateOf(box).words = event.target.value;
    showRows(box);
  });
  // Back and forward: another tab is shown, another question is asked anew.
  window.addEventListener("popstate", () => {
    const query = new URLSearchParams(location.search), wanted = query.get("tab") ?? "recommend";
    const there = [...document.querySelectorAll('button[role="tab"]')].find((one) => MAP.tabs[one.textContent.trim()] === wanted);
    query.delete("tab");
    if (there && tab !== wanted && lastWithoutTab === query.toString()) { tab = wanted; there.click(); } else location.reload();
  });
  let lastWithoutTab = "";
  const remember = () => { const query = new URLSearchParams(location.search); query.delete("tab"); lastWithoutTab = query.toString(); };
  for (const name of ["pushState", "replaceState"]) {
    const write = history[name].bind(history);
    history[name] = (...entry) => { write(...entry); remember(); };
  }
  remember();

  // Tools of the page: theme, unit of sizes, the defaults again, the last questions.
  const isDark = () => document.body.classList.contains("dark");
  const inGB = () => new URLSearchParams(location.search).get("units") === "GB";
  const wordTools = () => {
    const words = { theme: isDark() ? "Light theme" : "Dark theme", units: inGB() ? "Sizes in GiB" : "Sizes in GB" };
    for (const [name, word] of Object.entries(words)) {
      const tool = document.querySelector(`[data-tool="${name}"]`);
      if (tool && tool.textContent !== word) tool.textContent = word;
    }
  };
  const setTheme = () => {
    try {
      const theme = localStorage.getItem("theme");
      if (theme && !new URLSearchParams(location.search).has("__theme")) document.body.classList.toggle("dark", theme === "dark");
    } catch { /* a browser that keeps nothing */ }
    wordTools();
  };
  setTheme();
  // Paper is white: the dark theme goes for as long as the page is printed.
  let darkBefore = false;
  addEventListener("beforeprint", () => { darkBefore = isDark(); document.body.classList.remove("dark"); });
  addEventListener("afterprint", () => document.body.classList.toggle("dark", darkBefore || isDark()));
  // Gradio follows the system first; what was chosen here stays.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => requestAnimationFrame(setTheme));
  document.addEventListener("click", (event) => {
    const tool = event.target instanceof Element ? event.target.closest("[data-tool]")?.dataset.tool : undefined;
    if (!tool) return;
    const query = new URLSearchParams(location.search);
    if (tool === "theme") {
      document.body.classList.toggle("dark");
      try { localStorage.setItem("theme", isDark() ? "dark" : "light"); } catch { /* as above */ }
      wordTools();
      return;
    }
    if (tool === "units") query[inGB() ? "delete" : "set"]("units", "GB");
    else for (const name of [...query.keys()]) if (!["tab", "model", "units", "__theme"].includes(name)) query.delete(name);
    location.search = query.toString();
  });
  document.addEventListener("toggle", (event) => {
    if (!event.target.matches?.(".history[open]")) return;
    event.target.querySelector("ul").replaceChildren(...readQuestions().map(({ label, query }) => {
      const item = document.createElement("li"), link = item.appendChild(document.createElement("a"));
      link.href = query.startsWith("?") ? query : "?";
      link.textContent = label;
      return item;
    }));
  }, true);

  // The field's words say what they mean on hover and focus; Escape puts that away.
  const tip = document.createElement("div");
  tip.id = "term-tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  let shownTerm = null;
  const explain = (term) => {
    if (term === shownTerm) return;
    shownTerm?.removeAttribute("aria-describedby");
    shownTerm = term;
    tip.hidden = !term;
    if (!term) return;
    (document.querySelector("main") ?? document.body).append(tip);
    tip.textContent = term.dataset.term;
    term.setAttribute("aria-describedby", tip.id);
    place();
  };
  const place = () => {
    const at = shownTerm.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(at.left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${at.bottom + tip.offsetHeight + 8 > innerHeight ? at.top - tip.offsetHeight - 4 : at.bottom + 4}px`;
  };
  const termAt = (event) => (event.target instanceof Element ? event.target.closest("[data-term]") : null);
  document.addEventListener("focusin", (event) => explain(termAt(event)));
  document.addEventListener("mouseover", (event) => { if (!(event.target instanceof Element && event.target.closest("#term-tip"))) explain(termAt(event) ?? document.activeElement?.closest("[data-term]") ?? null); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") explain(null); });
  document.addEventListener("scroll", () => { if (shownTerm) place(); }, { passive: true, capture: true });

  // Arrow keys, Home and End go from tab to tab; the Tab key stops at the shown one only.
  const tabButtons = () => [...document.querySelectorAll('[role="tab"]')].filter((one) => one.checkVisibility());
  const rove = () => { for (const one of tabButtons()) one.tabIndex = one.getAttribute("aria-selected") === "true" ? 0 : -1; };
  document.addEventListener("keydown", (event) => {
    const all = tabButtons(), at = all.indexOf(event.target);
    if (at < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = all[to % all.length];
    next.click();
    next.focus();
  });

  // Gradio's choice list drops the focus when a choice is taken. It comes back to the field, without opening the list again.
  let returning = false, choosing = null;
  const giveBack = (field) => setTimeout(() => {
    if (document.activeElement !== document.body || !field?.isConnected) return;
    returning = true;
    field.focus({ preventScroll: true });
    returning = false;
  });
  document.addEventListener("focus", (event) => { if (returning) event.stopImmediatePropagation(); }, true);
  document.addEventListener("keydown", (event) => {
    const field = event.target;
    if (event.key === "Enter" && field instanceof Element && field.matches('input[role="combobox"]') && !field.closest("#model")) giveBack(field);
  }, true);
  // On a touch screen the focus would bring the keyboard back.
  document.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.target instanceof Element && event.target.closest('[role="option"]')) giveBack(choosing);
  }, true);

  // The model field suggests names as the browser does; Enter takes what was typed, a chosen name is answered at once.
  let choices = 0;
  const tie = () => {
    rove();
    restoreTables();
    tieGroups();
    tickRows();
    // Gradio names each choice apart: one name makes the choices of a field one stop, and has the arrow keys go through them.
    for (const choice of document.querySelectorAll("fieldset input[type=radio]")) {
      const name = (choice.closest("fieldset").dataset.choice ??= `choice-${(choices += 1)}`);
      if (choice.name !== name) choice.name = name;
    }
    // A chart's tools are for the mouse (its numbers stand in a table): ten stops of the Tab key less. Its heading names it.
    for (const tool of document.querySelectorAll('.modebar-btn:not([tabindex])')) tool.tabIndex = -1;
    for (const chart of document.querySelectorAll(".js-plotly-plot")) {
      const finding = chart.closest(".chart, #curve")?.querySelector("h2, h3")?.textContent ?? "Chart";
      if (chart.getAttribute("role") !== "figure") chart.setAttribute("role", "figure");
      if (chart.getAttribute("aria-label") !== finding) chart.setAttribute("aria-label", finding);
    }
    // Inside another page's frame a browser may block the sign-in: a link to the page on its own is shown then.
    if (window.self !== window.top) document.querySelector(".framed-note[hidden]")?.removeAttribute("hidden");
    for (const secret of document.querySelectorAll(":is(#token, #model-token) input:not([autocomplete=off])")) secret.setAttribute("autocomplete", "off"); // no browser is to keep it
    const field = document.querySelector("#model input");
    if (!field || field.getAttribute("list") === "model-names") return;
    field.setAttribute("list", "model-names");
    field.setAttribute("autocomplete", "off");
    field.setAttribute("spellcheck", "false");
    field.addEventListener("input", (event) => {
      const typed = event.inputType && event.inputType !== "insertReplacementText";
      const known = [...document.querySelectorAll("#model-names option")].some((option) => option.value === field.value);
      if (!typed && known) setTimeout(() => document.querySelector("#check").click(), 50);
    });
  };
  new MutationObserver(() => { tie(); watch(); wordTools(); repeatRefusal(); revealAnswer(); }).observe(document.body, { childList: true, subtree: true, attributeFilter: ["name"] });
  tie();
  revealAnswer();

  // Between two looks at a Space the time since goes on, worded as `space_steps.elapsed` words it.
  setInterval(() => {
    for (const clock of document.querySelectorAll("[data-elapsed]")) {
      clock.since ??= performance.now() - 1000 * clock.dataset.elapsed;
      const seconds = Math.floor((performance.now() - clock.since) / 1000);
      clock.textContent = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
    }
  }, 1000);

  const OUTCOME_MS = 3000; // how long a button shows what it did
  const showOutcome = (act, words) => {
    const status = act.parentElement.querySelector('[role="status"]');
    const label = act.dataset.label ?? (act.dataset.label = act.textContent);
    const say = (word, announcement) => { act.textContent = word; if (status) status.textContent = announcement; };
    say(words, words);
    clearTimeout(act.saying);
    act.saying = setTimeout(say, OUTCOME_MS, label, "");
  };
  const copyText = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Without permission (a page in a frame) the old way still works: select the text in a field and copy the selection.
      const field = document.createElement("textarea");
      field.value = text;
      field.style.cssText = "position:fixed;opacity:0";
      document.body.append(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      return done;
    }
  };
  // A token for closed models goes as a header with the page's own questions, so it is in no body and no address.
  const send = window.fetch.bind(window);
  window.fetch = (to, options = {}) => {
    const token = document.querySelector("#model-token input")?.value.trim() ?? "";
    const at = new URL(to instanceof Request ? to.url : to, location.href);
    if (options.method !== "POST" || at.origin !== location.origin || !at.pathname.includes("/gradio_api/") || !/^[!-~]{1,512}$/.test(token)) return send(to, options);
    const headers = new Headers(options.headers);
    headers.set("X-HF-Token", token);
    return send(to, { ...options, headers });
  };
  // After the sign-in the page opens with the same question; a frame of another site may block it, so it opens on its own.
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[data-sign-in]") : null;
    if (!link) return;
    event.preventDefault();
    const query = new URLSearchParams(location.search);
    query.set("model", nameable(document.querySelector("#model input").value));
    const address = link.href + encodeURIComponent("/?" + query);
    if (window.self === window.top) location.assign(address); else window.open(address, "_blank", "noopener");
  });
  // Gradio's button reads the address half a second after the press, so nothing else may write it from the press on.
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element && event.target.closest("#login"))) return;
    leaving = true;
    window.advisor.remember(document.querySelector("#space :is(input, textarea)").value);
  }, true);
  window.addEventListener("pageshow", () => { leaving = false; }); // Back may show this page as it was left
  // A file of the model's repository becomes the model; without this script its link opens the page with it.
  document.addEventListener("click", (event) => {
    const file = event.target instanceof Element ? event.target.closest("[data-model]") : null;
    const field = document.querySelector("#model input");
    if (!file || !field || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    field.value = file.dataset.model;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    setTimeout(() => document.querySelector("#check").click(), 50);
  });
  // A list to choose from is searched by typing: the choice that stands in it is selected, so that the first letter replaces it.
  document.addEventListener("focusin", (event) => {
    const field = event.target;
    if (!(field instanceof HTMLInputElement && field.matches('input[role="combobox"]')) || field.closest("#model")) return;
    choosing = field;
    setTimeout(() => { if (field === document.activeElement) field.select(); }); // selecting in a field that was left takes the focus back
  });
  // A chart as a picture: its finding above it, on white, with the legend that the page has beside it.
  document.addEventListener("click", async (event) => {
    const act = event.target instanceof Element ? event.target.closest("[data-png]") : null;
    const box = act?.closest(".chart, #curve"), chart = box?.querySelector(".js-plotly-plot");
    if (!chart) return;
    const finding = box.querySelector("h2, h3").textContent, size = { width: 1200, height: 675 };
    const { margin, ...look } = chart.layout, title = { text: finding, x: 0.03, font: { size: 18, color: "#1d2530" } };
    const layout = { ...look, ...size, title, margin: { ...margin, t: 70 }, showlegend: true, legend: { orientation: "h", y: -0.2 }, paper_bgcolor: "#fff", plot_bgcolor: "#fff" };
    await window.Plotly.downloadImage({ data: chart.data, layout }, { ...size, format: "png", filename: finding.slice(0, 80) });
  });
  // A chosen file becomes the text of a field; it is read here, and nothing is uploaded before the visitor asks.
  document.addEventListener("change", async (event) => {
    const pick = event.target instanceof Element ? event.target.closest("[data-into]") : null, file = pick?.files?.[0];
    if (!file) return;
    const field = document.querySelector(`#${pick.dataset.into} textarea`);
    field.value = (await file.text()).slice(0, field.maxLength > 0 ? field.maxLength : undefined);
    field.dispatchEvent(new Event("input", { bubbles: true }));
    pick.value = "";
  });
  document.addEventListener("click", async (event) => {
    const act = event.target instanceof Element ? event.target.closest("[data-copy], [data-copy-link]") : null;
    if (!act || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const link = act.parentElement.querySelector("[data-copy-link]"), address = link && new URL(link.getAttribute("href"), MAP.home || location.origin + location.pathname).href;
    // An answer as text says when it was given and where it can be asked again.
    const text = act === link ? address : link ? `${act.dataset.copy}\n${new Date().toISOString().slice(0, 10)} · ${address}` : act.dataset.copy;
    showOutcome(act, (await copyText(text)) ? "Copied" : "Copying is not allowed here");
  });
}
