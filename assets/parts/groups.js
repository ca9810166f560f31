  // Controls that belong together are one stop of the Tab key: the arrow keys, Home and End go from one to the next. In the rows of a
  // table, up and down go to the same control of another row.
  const GROUPS = '[role="toolbar"], .sorts thead, .rows tbody', CONTROLS = "a[href], button, summary, input[type=checkbox], [tabindex]";
  const grouped = new WeakSet();
  const controlsOf = (group) => [...group.querySelectorAll(CONTROLS)].filter((one) => !one.disabled);
  const stopAt = (group, control) => {
    for (const one of controlsOf(group)) {
      const index = one === control ? 0 : -1;
      if (one.tabIndex !== index) one.tabIndex = index;
    }
  };
  const tieGroups = () => {
    for (const group of document.querySelectorAll(GROUPS)) {
      if (grouped.has(group)) continue;
      grouped.add(group);
      stopAt(group, controlsOf(group)[0]);
    }
  };
  // A search or another order may have hidden the stop.
  const keepStop = (group) => {
    const all = controlsOf(group);
    if (!all.some((one) => one.tabIndex === 0 && one.checkVisibility())) stopAt(group, all.find((one) => one.checkVisibility()));
  };
  document.addEventListener("focusin", ({ target }) => {
    const group = target instanceof Element && target.matches(CONTROLS) ? target.closest(GROUPS) : null;
    if (group) stopAt(group, target);
  });
  const inOtherRow = (all, target, down) => {
    const row = target.closest("tr"), place = all.filter((one) => row.contains(one)).indexOf(target);
    const rows = [...new Set(all.map((one) => one.closest("tr")))], next = rows[rows.indexOf(row) + (down ? 1 : -1)];
    const there = all.filter((one) => next?.contains(one));
    return there[Math.min(place, there.length - 1)];
  };
  document.addEventListener("keydown", (event) => {
    const target = event.target, group = target instanceof Element && target.matches(CONTROLS) ? target.closest(GROUPS) : null;
    if (!group || event.ctrlKey || event.altKey || event.metaKey) return;
    const all = controlsOf(group).filter((one) => one.checkVisibility()), at = all.indexOf(target);
    const updown = event.key === "ArrowDown" || event.key === "ArrowUp";
    const next = updown && group.matches("tbody")
      ? inOtherRow(all, target, event.key === "ArrowDown")
      : all[{ ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key]];
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
