() => {
  // The model field suggests names as the browser does; Enter takes what was typed, a chosen name is answered at once.
  const tie = () => {
    // Inside another page's frame a browser may block the sign-in: a link to the page on its own is shown then.
    if (window.self !== window.top) document.querySelector(".framed-note[hidden]")?.removeAttribute("hidden");
    document.querySelector("#token input:not([autocomplete=off])")?.setAttribute("autocomplete", "off"); // no browser is to keep it
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
  new MutationObserver(tie).observe(document.body, { childList: true, subtree: true });
  tie();

  // Between two looks at a Space the time since goes on, worded as `space_steps.elapsed` words it.
  setInterval(() => {
    for (const clock of document.querySelectorAll("[data-elapsed]")) {
      clock.since ??= performance.now() - 1000 * clock.dataset.elapsed;
      const seconds = Math.floor((performance.now() - clock.since) / 1000);
      clock.textContent = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
    }
  }, 1000);

  const said = (act, words) => {
    const status = act.parentElement.querySelector('[role="status"]');
    const label = act.dataset.label ?? (act.dataset.label = act.textContent);
    act.textContent = words;
    if (status) status.textContent = words;
    setTimeout(() => { act.textContent = label; if (status) status.textContent = ""; }, 1600);
  };
  const copied = async (text) => {
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
  document.addEventListener("click", async (event) => {
    const act = event.target instanceof Element ? event.target.closest("[data-copy], [data-copy-link]") : null;
    if (!act || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const text = "copyLink" in act.dataset ? new URL(act.getAttribute("href"), location.origin + location.pathname).href : act.dataset.copy;
    said(act, (await copied(text)) ? "Copied" : "Copying is not allowed here");
  });
}
