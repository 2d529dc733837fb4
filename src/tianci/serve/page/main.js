// The frame: header, language, theme, key, and views by the address behind "#".
//
// The contract of a view. A module page/NAME.js for the address "#/NAME/..." exports
//
//   export async function show(root, context)
//
// which fills the empty element `root` (all text through dom.js). It is called again after each
// change of address, language or key. context:
//   api      requests, see api.js: get, post, events; errors are sentences to show
//   info     what GET /page/info said: {models: [...], views: [...], limits, key_needed}
//   t        t("key", {n: 3}): words of the interface; own words by addWords of words.js
//   language "en" or "zh"
//   route    {view: "report", rest: ["run", "a/b"], query: URLSearchParams} of "#/report/run/a%2Fb?x=1"
//   go       go("#/runs"): another address; go(address, {quiet: true}) without showing it again
//   signal   an AbortSignal, aborted when the view is left: pass it to requests and listeners
// What show() throws is shown as a sentence. A view is offered when info.views names it. Changes of
// the theme come as the event "tianci-theme" on window (for canvases).

import { ApiError, api, key } from "./api.js";
import { el, fill } from "./dom.js";
import { notice, waiting } from "./parts.js";
import { speak, t } from "./words.js";

const VIEWS = {
  playground: () => import("./playground.js"),
  attention: () => import("./attention.js"),
  runs: () => import("./runs.js"),
  report: () => import("./report.js"),
  map: () => import("./map.js"),
};
const head = document.getElementById("head");
const main = document.getElementById("main");
const state = { language: "en", info: null, leave: new AbortController() };

// ---------------------------------------------------------------- kept between visits

function kept(name, value) {
  try {
    if (value === undefined) return localStorage.getItem(`tianci-${name}`);
    localStorage.setItem(`tianci-${name}`, value);
  } catch {
    // a browser that keeps nothing
  }
  return null;
}

function setLanguage(code) {
  state.language = code;
  speak(code);
  document.documentElement.lang = code === "zh" ? "zh-CN" : "en";
  document.getElementById("skip").textContent = t("skip");
}

function setTheme(name) {
  if (name === "light" || name === "dark") document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  dispatchEvent(new Event("tianci-theme"));
}

// ---------------------------------------------------------------- the address

function readRoute() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path.split("/").filter(Boolean).map(decoded);
  return { view: view ?? "", rest, query: new URLSearchParams(query ?? "") };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function go(address, { quiet = false } = {}) {
  if (quiet) history.replaceState(null, "", address);
  else if (location.hash === address) show();
  else location.hash = address;
}

// ---------------------------------------------------------------- header

function header(route) {
  const views = state.info?.views ?? [];
  const themes = ["auto", "light", "dark"];
  const chosen = kept("theme") ?? "auto";
  fill(
    head,
    el("a", { class: "brand", href: "#/", "aria-label": "tianci" },
      el("span", { class: "mark", "aria-hidden": "true" }, "[", el("i", {}, "_"), "]"), "tianci"),
    el("nav", { "aria-label": t("views") },
      views.map((one) => el("a", {
        href: `#/${one}`, "aria-current": one === route.view ? "page" : null,
      }, t(one)))),
    el("div", { class: "tools" },
      state.info?.models?.length && !state.info.key_needed ? el("a", { href: "/docs", class: "quiet" }, t("routes")) : null,
      key.get() ? el("button", { class: "quiet", onclick: forgetKey }, t("key_forget")) : null,
      el("button", { class: "quiet", "aria-label": t("language_long"), id: "language", onclick: changeLanguage },
        t("language")),
      el("select", {
        "aria-label": t("theme"), id: "theme", class: "quiet",
        onchange: (event) => { kept("theme", event.target.value); setTheme(event.target.value); },
      }, themes.map((one) => el("option", { value: one, selected: one === chosen }, t(`theme_${one}`)))),
    ),
  );
}

function changeLanguage() {
  setLanguage(state.language === "zh" ? "en" : "zh");
  kept("language", state.language);
  show().then(() => document.getElementById("language")?.focus());
}

function forgetKey() {
  key.set("");
  state.info = null;
  show();
}

// ---------------------------------------------------------------- the key

function askForKey(wrong) {
  const input = el("input", { type: "password", id: "key", autocomplete: "off", required: true });
  const form = el("form", {
    class: "card narrow",
    onsubmit: (event) => { event.preventDefault(); key.set(input.value.trim()); show(); },
  },
    el("h1", {}, t("key_title")),
    el("p", {}, t("key_text")),
    wrong ? notice(t("key_wrong")) : null,
    el("label", { for: "key" }, t("key")), input,
    el("button", { class: "main" }, t("key_use")));
  fill(main, form);
  input.focus();
}

// ---------------------------------------------------------------- showing

const pause = (ms) => new Promise((done) => { setTimeout(done, ms); });

async function readInfo(signal) {
  for (;;) {
    try {
      return await api.get("/page/info", { signal });
    } catch (error) {
      if (error.status !== 503) throw error;
      fill(main, waiting(t("models_loading"))); // it says so while it starts
      await pause(1000);
    }
  }
}

async function show() {
  state.leave.abort();
  const leave = (state.leave = new AbortController());
  let route = readRoute();
  header(route);
  fill(main, waiting(t("loading")));
  try {
    state.info ??= await readInfo(leave.signal);
    if (leave.signal.aborted) return;
    if (!route.view) route = { ...route, view: state.info.views[0] ?? "" };
    header(route);
    document.title = route.view ? `${t(route.view)} · tianci` : "tianci";
    if (!route.view) { fill(main, notice(t("no_views"))); return; }
    if (!VIEWS[route.view] || !state.info.views.includes(route.view)) {
      fill(main, notice(t("unknown_view")));
      return;
    }
    const module = await VIEWS[route.view]();
    if (leave.signal.aborted) return;
    const root = el("div", { class: `view ${route.view}` });
    fill(main, root);
    await module.show(root, {
      api, t, go, route, info: state.info, language: state.language, signal: leave.signal,
    });
  } catch (error) {
    if (leave.signal.aborted || error.name === "AbortError") return;
    if (error.status === 401) { state.info = null; askForKey(Boolean(key.get())); return; }
    if (!(error instanceof ApiError)) console.error(error);
    fill(main, notice(error.message), el("button", { onclick: show }, t("again")));
  }
}

const wanted = kept("language") ?? (navigator.language?.toLowerCase().startsWith("zh") ? "zh" : "en");
setLanguage(wanted);
setTheme(kept("theme"));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address belongs to the views
  main.focus();
});
addEventListener("hashchange", show);
addEventListener("tianci-key", () => { state.info = null; });
show();
