// Tokens of a text with a colour and a number each. The numbers are there for screen readers, and
// for everyone with "show the numbers".

import { el, svg } from "../dom.js";

// Thrown where the page itself knows what is missing.
export function sentence(text) {
  return Object.assign(new Error(text), { told: true });
}

// rows: [{text, start, stop, special, part, amount: -1..1, number: "0.12"}]; amount > 0 is --plus.
export function tokens(rows, { t, caption }) {
  let end = { part: 0, stop: 0 };
  const list = el("ol", { class: "tokens", "aria-label": caption }, rows.map((one) => {
    const apart = one.special || (one.part === end.part && one.start > end.stop) || one.part !== end.part;
    if (!one.special) end = { part: one.part, stop: one.stop };
    const share = Math.round(Math.min(1, Math.abs(one.amount)) * 45); // more would hide the letters
    const tone = one.amount < 0 ? "minus" : "plus";
    const classes = ["token", apart ? "apart" : "", one.special ? "special" : ""].join(" ");
    return el("li", {
      class: classes, title: one.number,
      style: share ? { "background-color": `color-mix(in srgb, var(--${tone}) ${share}%, transparent)` } : {},
    }, el("span", {}, one.text || "·"), el("small", { class: "number" }, one.number));
  }));
  const box = el("input", { type: "checkbox", onchange: () => list.classList.toggle("numbers", box.checked) });
  return el("div", { class: "stack" }, list, el("label", { class: "check small" }, box, t("numbers")));
}

// A legend: from one colour over nothing to the other.
export function legend(left, right, leftTone, rightTone) {
  const swatch = (tone) => el("span", { class: "token-swatch", style: { background: `color-mix(in srgb, var(--${tone}) 45%, var(--surface))` }, "aria-hidden": "true" });
  return el("p", { class: "row small muted token-legend" },
    leftTone ? swatch(leftTone) : el("span", { class: "token-swatch", "aria-hidden": "true" }), left, swatch(rightTone), right);
}

// Offsets of the server count characters; JavaScript counts halves of some of them.
export function characters(text) {
  const all = [...text];
  return { slice: (start, stop) => all.slice(start, stop).join(""), length: all.length };
}

// A text with marked places: [{start, end, node}] that do not overlap, in order.
export function marked(text, places) {
  const whole = characters(text);
  const parts = [];
  let at = 0;
  for (const one of [...places].sort((a, b) => a.start - b.start)) {
    if (one.start < at) continue;
    parts.push(whole.slice(at, one.start), one.make(whole.slice(one.start, one.end)));
    at = one.end;
  }
  return [...parts, whole.slice(at)];
}

// What a vocabulary entry looks like in a text.
export function plain(token) {
  return token.replace(/^##/, "").replace(/^[▁Ġ]/, " ").replace(/<\/w>$/, "");
}

// Numbers as thin bars up and down.
export function spark(numbers, label) {
  const most = Math.max(1e-9, ...numbers.map(Math.abs));
  return svg("svg", { viewBox: `0 0 ${numbers.length * 4} 40`, class: "spark", role: "img", "aria-label": label, preserveAspectRatio: "none" },
    numbers.map((one, n) => {
      const height = (Math.abs(one) / most) * 19;
      return svg("rect", { x: n * 4, width: 3, y: one >= 0 ? 20 - height : 20, height: Math.max(0.5, height), class: one >= 0 ? "up" : "down" });
    }));
}
