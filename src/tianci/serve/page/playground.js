// The playground: one tab per thing that the loaded models can do. A tab is a module of play/:
//   id, can(model), made    who can do it; the task of those that were made for it
//   fields                  [{name, kind: text|line|list|number, label, value, ...}]
//   examples                values of fields, in Chinese and English
//   request(values, model)  {path, body}, or throws a sentence
//   show(root, answer, use) fills the result; use = {t, values, model, set, run, post, signal}
//   ask(use)                instead of one request: anything that ends in an answer

import { el, fill } from "./dom.js";
import { field, notice, tabs, waiting } from "./parts.js";
import answer from "./play/answer.js";
import choose from "./play/choose.js";
import { classify, pair } from "./play/classify.js";
import fillIn from "./play/fill.js";
import generate from "./play/generate.js";
import neighbours from "./play/neighbours.js";
import score from "./play/score.js";
import { snippets } from "./play/snippets.js";
import tag from "./play/tag.js";
import "./play/words.js";

const ALL = [fillIn, classify, pair, tag, answer, choose, generate, score, neighbours];
const kept = new Map(); // per tab: what was typed and the last answer, also when the language changes

export async function show(root, context) {
  const { info, t, route, go } = context;
  const offered = ALL.filter((one) => info.models.some(one.can));
  const current = offered.find((one) => one.id === route.rest[0]) ?? offered[0];
  const list = offered.map((one) => ({ id: one.id, name: t(`tab_${one.id}`) }));
  root.append(
    el("h1", { class: "visually-hidden" }, t("playground")),
    tabs(list, current.id, (id, how) => { wantFocus = Boolean(how?.focus); go(`#/playground/${id}`); }, t("tasks")),
    el("div", { role: "tabpanel", id: "panel", "aria-labelledby": `tab-${current.id}` }, panel(current, context)),
  );
  if (wantFocus) root.querySelector(`#tab-${current.id}`)?.focus();
  wantFocus = false;
}

let wantFocus = false; // arrow keys on tabs move the focus along

function panel(tab, context) {
  const { info, t } = context;
  // those that were made for it first
  const models = info.models.filter(tab.can).sort((a, b) => (b.task === tab.made) - (a.task === tab.made));
  const state = kept.get(tab.id) ?? { values: starting(tab), model: models[0].name, said: null };
  kept.set(tab.id, state);
  const modelOf = () => models.find((one) => one.name === state.model) ?? models[0];
  const controls = {};
  const result = el("div", { class: "result stack" });
  const told = el("p", { class: "visually-hidden", role: "status" });
  const code = el("div", {});
  const button = el("button", { class: "main", type: "submit" }, t(tab.verb ?? "run"));
  const stop = el("button", { type: "button", hidden: true }, t("stop"));
  let running = null;

  const set = (name, value) => {
    state.values[name] = value;
    if (controls[name]) controls[name].value = value;
  };

  async function run() {
    running?.abort();
    const mine = (running = new AbortController());
    const quit = () => mine.abort();
    context.signal.addEventListener("abort", quit, { once: true });
    button.disabled = true;
    stop.hidden = !tab.stops;
    stop.onclick = quit;
    told.textContent = "";
    fill(result, waiting(t("waiting")));
    result.setAttribute("aria-busy", "true");
    const model = modelOf();
    try {
      const request = tab.request({ ...state.values }, model, t, info);
      const use = { ...context, values: { ...state.values }, model, request, result, signal: mine.signal };
      const answered = tab.ask ? await tab.ask(use) : await context.api.post(request.path, request.body, use);
      if (running !== mine || context.signal.aborted) return;
      state.said = { request, answered, values: { ...state.values }, model };
      present();
      told.textContent = t("done");
      const { top } = result.getBoundingClientRect();
      if (top > innerHeight * 0.8) result.scrollIntoView({ block: "nearest" }); // narrow screens
    } catch (error) {
      if (running !== mine || context.signal.aborted) return;
      if (error.name === "AbortError") fill(result, el("p", { class: "muted" }, t("stopped")));
      else { fill(result, notice(error.message)); fill(code); }
      if (error.status === undefined && error.name !== "AbortError" && !error.told) console.error(error);
    } finally {
      if (running === mine) {
        button.disabled = false;
        stop.hidden = true;
        result.removeAttribute("aria-busy");
      }
    }
  }

  function present() {
    const { request, answered, values, model } = state.said;
    fill(result);
    tab.show(result, answered, { ...context, values, model, request, set, run });
    fill(code, snippets(request, context));
  }

  const choice = models.length > 1
    ? field(t("model"), el("select", {
      onchange: (event) => { state.model = event.target.value; state.said = null; context.go(`#/playground/${tab.id}`); },
    }, models.map((one) => el("option", { value: one.name, selected: one.name === modelOf().name }, `${one.name} (${one.family})`))))
    : el("p", { class: "muted small model" }, `${t("model")}: ${models[0].name} (${models[0].family})`);

  const form = el("form", { class: "card stack", onsubmit: (event) => { event.preventDefault(); run(); } },
    el("p", { class: "muted" }, t(`about_${tab.id}`)),
    choice,
    fieldsOf(tab, state, controls, context, modelOf()),
    el("div", { class: "row" }, button, stop, el("span", { class: "muted small keys" }, t("keys"))),
    examplesOf(tab, modelOf(), t, (values) => {
      for (const [name, value] of Object.entries(values)) set(name, value);
      run();
    }));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
  });
  if (state.said) present();
  else fill(result, el("p", { class: "muted" }, t("nothing_yet")));
  return el("div", { class: "columns" }, form,
    el("section", { class: "card stack", "aria-label": t("result") }, told, result, code));
}

function starting(tab) {
  return Object.fromEntries(tab.fields.map((one) => [one.name, one.value ?? ""]));
}

function fieldsOf(tab, state, controls, context, model) {
  const { t } = context;
  const made = tab.fields.filter((one) => !one.when || one.when(model)).map((one) => {
    const common = {
      value: state.values[one.name], name: one.name,
      oninput: (event) => { state.values[one.name] = event.target.value; },
    };
    const control = one.kind === "number"
      ? el("input", { type: "number", min: one.min, max: one.max, step: one.step ?? "any", placeholder: t("usual"), ...common })
      : one.kind === "line"
        ? el("input", { type: "text", autocomplete: "off", ...common })
        : el("textarea", { class: one.kind === "list" ? "list" : one.short ? "short" : "", spellcheck: "false", ...common });
    controls[one.name] = control;
    const more = one.insert ? one.insert(control, model, t, (value) => { state.values[one.name] = value; }) : null;
    return [one, field(t(one.label), control, more)];
  });
  const inline = made.filter(([one]) => one.kind === "number").map(([, node]) => node);
  return [
    ...made.filter(([one]) => one.kind !== "number").map(([, node]) => node),
    inline.length ? el("details", {}, el("summary", {}, t("options")), el("div", { class: "row options" }, inline)) : null,
  ];
}

function examplesOf(tab, model, t, use) {
  return el("div", { class: "stack examples" },
    el("h2", { class: "small muted" }, t("examples")),
    el("div", { class: "row" }, tab.examples.map((one) => {
      const values = typeof one.values === "function" ? one.values(model) : one.values;
      return el("button", { type: "button", class: "chip", lang: one.lang, onclick: () => use(values) }, one.name ?? Object.values(values)[0]);
    })));
}
