// Small parts that several views use.

import { el, identity, svg } from "./dom.js";

// A sentence that went wrong; told to screen readers at once.
export function notice(text) {
  return el("p", { class: "notice", role: "alert" }, text);
}

// Something is under way.
export function waiting(text) {
  return el("p", { class: "waiting", role: "status" }, el("span", { class: "spinner", "aria-hidden": "true" }), text);
}

// A labelled control: field("Text", input). `more` stands beside the label.
export function field(label, control, more = null) {
  control.id ||= identity("field");
  return el("div", { class: "field" },
    el("div", { class: "row spread" }, el("label", { for: control.id }, label), more), control);
}

// A row of a bar chart: a name, a bar (share of the largest, 0 to 1) and a number. With `onclick`
// the name is a button.
export function bar({ name, share, text, onclick = null, label = null, tone = null, best = false }) {
  const width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  const shown = onclick
    ? el("button", { type: "button", class: "name", onclick, "aria-label": label }, name)
    : el("span", { class: "name" }, name);
  return el("li", { class: best ? "bar best" : "bar" }, shown,
    el("span", { class: "track", "aria-hidden": "true" },
      el("span", { class: "amount", style: tone ? { width, background: `var(--${tone})` } : { width } })),
    el("span", { class: "number" }, text));
}

export function bars(rows, attributes = {}) {
  return el("ul", { class: "bars", ...attributes }, rows.map(bar));
}

export function percent(value) {
  if (value > 0 && value < 0.0005) return "<0.1%";
  return `${(100 * value).toFixed(1)}%`;
}

// A number with a real minus.
export function fixed(value, digits = 2) {
  return value.toFixed(digits).replace("-", "−");
}

// Tabs with the keys and roles that people expect: arrows, Home, End. `list`: [{id, name}].
export function tabs(list, current, choose, label) {
  const buttons = list.map((one) => el("button", {
    type: "button", role: "tab", id: `tab-${one.id}`, "aria-selected": String(one.id === current),
    "aria-controls": "panel", tabindex: one.id === current ? "0" : "-1", onclick: () => choose(one.id),
  }, one.name));
  const step = (event) => {
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const next = (to + buttons.length) % buttons.length;
    choose(list[next].id, { focus: true });
  };
  return el("div", { role: "tablist", class: "tabs", "aria-label": label, onkeydown: step }, buttons);
}

export function icon(path) {
  return svg("svg", { viewBox: "0 0 16 16", width: "16", height: "16", "aria-hidden": "true", class: "icon" },
    svg("path", { d: path }));
}
