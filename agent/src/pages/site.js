// Search and filter over all nodes, and live updates. Every page works without this file.
"use strict";
(() => {
  const form = document.getElementById("search");
  if (form) {
    const list = document.getElementById("found");
    const rest = document.getElementById("listed");
    const said = document.getElementById("said");
    const most = 200;
    let loading = false;
    const show = () => {
      const nodes = window.zagentNodes;
      const words = form.elements.q.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
      const state = form.elements.state.value;
      const wanted = words.length > 0 || state !== "";
      rest.hidden = wanted;
      list.replaceChildren();
      said.textContent = "";
      if (!wanted) return;
      if (!nodes) return load();
      const found = nodes.filter((n) => (state === "" || n[1] === state) &&
        words.every((w) => n.some((field) => field.toLowerCase().includes(w))));
      said.textContent = found.length + " of " + nodes.length + " nodes" +
        (found.length > most ? ", the first " + most + " are listed" : "");
      for (const n of found.slice(0, most)) {
        const item = document.createElement("li");
        const link = document.createElement("a");
        link.href = form.dataset.root + "node/" + encodeURIComponent(n[0]) + ".html";
        link.textContent = n[0];
        item.append(link, " " + n.slice(1).filter(Boolean).join(", "));
        list.append(item);
      }
    };
    const load = () => {
      if (loading) return;
      loading = true;
      said.textContent = "loading";
      const script = document.createElement("script");
      script.src = form.dataset.root + "nodes.js";
      script.onload = show;
      document.head.append(script);
    };
    form.hidden = false;
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
  }
  const live = document.getElementById("live");
  if (live) {
    const source = new EventSource(live.dataset.events);
    let version = null;
    source.onmessage = async (event) => {
      const first = version === null;
      const changed = version !== event.data;
      version = event.data;
      if (first && live.dataset.version === event.data) return;
      if (!changed) return;
      const answer = await fetch(location.href);
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const now = document.getElementById("content");
      const next = page.getElementById("content");
      if (now && next) now.replaceWith(next);
      live.textContent = page.getElementById("live").textContent;
      window.zagentNodes = undefined;
    };
    source.onerror = () => { live.textContent = "not connected: shown as it was last"; };
  }
})();
