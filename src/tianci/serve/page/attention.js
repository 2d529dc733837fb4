// Where attention goes: all heads of all layers as small pictures, one of them large, as lines from
// each token (left) to those it looks at (right).

import { colour, el, fill } from "./dom.js";
import { field, notice, waiting } from "./parts.js";
import { sentence } from "./play/tokens.js";
import "./play/words.js";
import { addWords } from "./words.js";

addWords({
  attention_about: [
    "Which tokens each token looks at, in every layer and head. Choose a picture; point at a token to see its lines.",
    "每一层、每个注意力头中，各词元关注哪些词元。选择一幅小图；指向一个词元查看连线。",
  ],
  look: ["Look", "查看"],
  all_heads: ["All heads", "所有注意力头"],
  layer: ["Layer", "层"],
  head: ["Head", "头"],
  layer_head: ["Layer {layer}, head {head}", "第 {layer} 层，第 {head} 头"],
  looks_at: ["{token} looks at {list}", "{token} 关注 {list}"],
  point_at: ["Point at a token, or step through them with the arrow keys.", "指向词元，或用方向键逐个查看。"],
  from_tokens: ["Looking tokens", "出发词元"],
  to_tokens: ["Tokens looked at", "被关注词元"],
  more_layers: ["{n} of {all} layers", "{n} / {all} 层"],
});

const EXAMPLES = [
  { lang: "zh", first: "小猫坐在垫子上，因为它很软。", second: "" },
  { lang: "en", first: "The cat sat on the mat because it was soft.", second: "" },
  { lang: "en", first: "The keys are on the table.", second: "They belong to my sister." },
];
const NUMBERS = 1 << 17; // weights of one request; deep models come in pieces
const kept = { first: EXAMPLES[0].first, second: "", model: null, data: null, layer: 0, head: 0 };

export async function show(root, context) {
  const { info, t, language } = context;
  const models = info.models.filter((one) => one.abilities.includes("attention"));
  kept.model = models.find((one) => one.name === kept.model)?.name ?? models[0].name;
  if (kept.first === EXAMPLES[0].first && !kept.data && language === "en") kept.first = EXAMPLES[1].first;
  const result = el("div", { class: "stack pictures" });
  const text = (name, label) => field(t(label), el("textarea", {
    class: "short", value: kept[name], name, oninput: (event) => { kept[name] = event.target.value; },
  }));
  const first = text("first", "text");
  const second = text("second", "second_text_maybe");
  let running = new AbortController();

  async function run() {
    running.abort();
    const mine = (running = new AbortController());
    context.signal.addEventListener("abort", () => mine.abort(), { once: true });
    fill(result, waiting(t("waiting")));
    try {
      kept.data = null;
      if (!kept.first.trim()) throw sentence(t("need_text"));
      for await (const data of fetched(context.api, mine.signal)) {
        kept.data = data;
        if (data.weights.length === 1 || !result.querySelector(".heads")) picture(result, context);
        else result.dispatchEvent(new CustomEvent("more"));
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      fill(result, notice(error.message));
      if (error.status === undefined && !error.told) console.error(error);
    }
  }

  const form = el("form", { class: "card stack", onsubmit: (event) => { event.preventDefault(); run(); } },
    el("p", { class: "muted" }, t("attention_about")),
    models.length > 1
      ? field(t("model"), el("select", { onchange: (event) => { kept.model = event.target.value; run(); } },
        models.map((one) => el("option", { value: one.name, selected: one.name === kept.model }, `${one.name} (${one.family})`))))
      : el("p", { class: "muted small" }, `${t("model")}: ${models[0].name} (${models[0].family})`),
    first, second,
    el("div", { class: "row" }, el("button", { class: "main" }, t("look"))),
    el("div", { class: "stack examples" }, el("h2", { class: "small muted" }, t("examples")),
      el("div", { class: "row" }, EXAMPLES.map((one) => el("button", {
        type: "button", class: "chip", lang: one.lang,
        onclick: () => {
          kept.first = first.querySelector("textarea").value = one.first;
          kept.second = second.querySelector("textarea").value = one.second;
          run();
        },
      }, one.second ? `${one.first} / ${one.second}` : one.first)))));
  root.append(el("h1", { class: "visually-hidden" }, t("attention")),
    el("div", { class: "columns attention-columns" }, form, result));
  if (kept.data) picture(result, context);
  else await run();
}

// The first layer tells how large the rest is; then as many layers at a time as fit.
async function* fetched(api, signal) {
  const inputs = kept.second.trim() ? [kept.first, kept.second] : kept.first;
  const ask = (layers) => api.post("/attention", { inputs, layers, model: kept.model }, { signal });
  const data = await ask([0]);
  yield data;
  const size = data.heads * data.tokens.length ** 2;
  const step = Math.max(1, Math.floor(NUMBERS / size));
  for (let at = 1; at < data.layers; at += step) {
    const shown = Array.from({ length: Math.min(step, data.layers - at) }, (_, n) => at + n);
    data.weights.push(...(await ask(shown)).weights);
    yield data;
  }
}

// ---------------------------------------------------------------- pictures

function picture(result, context) {
  const { t, signal } = context;
  const { heads, layers } = kept.data;
  kept.layer = Math.min(kept.layer, layers - 1);
  kept.head = Math.min(kept.head, heads - 1);
  const large = el("section", { class: "card stack" });
  const cells = [];
  const choose = (layer, head, focus = false) => {
    if (!kept.data.weights[layer]?.[head]) return; // not there yet, or pruned
    Object.assign(kept, { layer, head });
    for (const one of cells) {
      const mine = one.layer === layer && one.head === head;
      one.button.setAttribute("aria-pressed", String(mine));
      one.button.tabIndex = mine ? 0 : -1;
      if (mine && focus) one.button.focus();
    }
    lines(large, context);
  };
  const grid = el("div", { class: "heads", style: { "--heads": heads }, role: "group", "aria-label": t("all_heads") });
  for (let layer = 0; layer < layers; layer += 1) {
    grid.append(el("span", { class: "small muted number", "aria-hidden": "true" }, layer + 1));
    for (let head = 0; head < heads; head += 1) {
      const canvas = el("canvas", { "aria-hidden": "true" });
      const button = el("button", {
        type: "button", tabindex: "-1", "aria-pressed": "false", onclick: () => choose(layer, head),
        "aria-label": t("layer_head", { layer: layer + 1, head: head + 1 }),
      }, canvas);
      cells.push({ layer, head, canvas, button });
      grid.append(button);
    }
  }
  grid.addEventListener("keydown", (event) => {
    const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!by) return;
    event.preventDefault();
    choose((kept.layer + by[0] + layers) % layers, (kept.head + by[1] + heads) % heads, true);
  });
  const state = el("p", { class: "small muted", role: "status" });
  const paint = () => {
    const ink = numbers(colour("accent"));
    for (const { layer, head, canvas, button } of cells) {
      const matrix = kept.data.weights[layer]?.[head];
      button.disabled = !matrix;
      if (matrix) heat(canvas, matrix, ink);
    }
    const there = kept.data.weights.length;
    state.textContent = there < layers ? t("more_layers", { n: there, all: layers }) : "";
  };
  fill(result, el("section", { class: "card stack" }, el("h2", {}, t("all_heads")),
    el("p", { class: "small muted axes" }, `↓ ${t("layer")}  → ${t("head")}`), grid, state), large);
  if (!kept.data.weights[kept.layer]?.[kept.head]) Object.assign(kept, { layer: 0, head: 0 });
  choose(kept.layer, kept.head);
  paint();
  result.addEventListener("more", paint, { signal });
  addEventListener("tianci-theme", () => { paint(); lines(large, context); }, { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { paint(); lines(large, context); }, { signal });
}

function numbers(rgb) {
  return rgb.match(/[\d.]+/g).slice(0, 3).map(Number);
}

// A matrix of weights, one pixel each; faint ones are lifted so that they are seen.
function heat(canvas, matrix, [r, g, b]) {
  const n = matrix.length;
  canvas.width = canvas.height = n;
  const image = new ImageData(n, n);
  matrix.forEach((row, i) => row.forEach((weight, j) => {
    image.data.set([r, g, b, 255 * Math.sqrt(weight)], 4 * (i * n + j));
  }));
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function lines(place, { t, signal }) {
  const { tokens, weights } = kept.data;
  const matrix = weights[kept.layer][kept.head];
  const canvas = el("canvas", { "aria-hidden": "true" });
  const told = el("p", { class: "told", role: "status" }, t("point_at"));
  let chosen = null;
  const name = (one) => one.text || one.token;
  const left = tokens.map((one, n) => el("button", {
    type: "button", class: one.special ? "special" : "", tabindex: n === 0 ? "0" : "-1",
    onmouseenter: () => look(n), onfocus: () => look(n), onclick: () => look(n),
  }, name(one)));
  const right = tokens.map((one) => el("li", { class: one.special ? "special" : "" }, name(one)));

  function look(n) {
    chosen = n;
    left.forEach((one, i) => { one.classList.toggle("chosen", i === n); one.tabIndex = i === (n ?? 0) ? 0 : -1; });
    right.forEach((one, j) => {
      const share = n === null ? 0 : Math.round(55 * Math.sqrt(matrix[n][j]));
      one.style.backgroundColor = share ? `color-mix(in srgb, var(--accent) ${Math.min(45, share)}%, transparent)` : "";
    });
    if (n === null) told.textContent = t("point_at");
    else {
      const best = matrix[n].map((weight, j) => [weight, j]).filter(([weight]) => weight >= 0.005).sort((a, b) => b[0] - a[0]).slice(0, 5);
      told.textContent = t("looks_at", {
        token: name(tokens[n]), list: best.map(([weight, j]) => `${name(tokens[j])} ${weight.toFixed(2)}`).join(" · "),
      });
    }
    draw();
  }

  function draw() {
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) return;
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.strokeStyle = colour("accent");
    const row = height / tokens.length;
    const rows = chosen === null ? matrix.keys() : [chosen];
    const most = chosen === null ? 1 : Math.max(...matrix[chosen]);
    for (const i of rows) {
      matrix[i].forEach((weight, j) => {
        if (weight < 0.01) return;
        pen.globalAlpha = Math.min(1, weight / most);
        pen.lineWidth = chosen === null ? 1 : 1 + (2 * weight) / most;
        const [from, to] = [(i + 0.5) * row, (j + 0.5) * row];
        pen.beginPath();
        pen.moveTo(0, from);
        pen.bezierCurveTo(width / 3, from, (2 * width) / 3, to, width, to);
        pen.stroke();
      });
    }
  }

  const column = el("div", { class: "from", role: "group", "aria-label": t("from_tokens") }, left);
  column.addEventListener("keydown", (event) => {
    const to = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, Home: 0, End: left.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    left[(to + left.length) % left.length].focus();
  });
  const figure = el("div", { class: "lines", onmouseleave: () => { if (!column.contains(document.activeElement)) look(null); } },
    column, el("div", { class: "between" }, canvas), el("ul", { class: "to", "aria-label": t("to_tokens") }, right));
  fill(place, el("h2", {}, t("layer_head", { layer: kept.layer + 1, head: kept.head + 1 })), told, figure);
  const watcher = new ResizeObserver(draw);
  watcher.observe(canvas);
  signal.addEventListener("abort", () => watcher.disconnect(), { once: true });
}
