// Report: a fine-tuning run's scores, with a threshold that can be moved.

import { Chart } from "./chart.js";
import { el, fill } from "./dom.js";
import { notice } from "./parts.js";
import { said, told } from "./words_runs.js";

const share = (part, of) => (of ? part / of : NaN);
const say = (value, digits = 3) => (Number.isFinite(value) ? value.toFixed(digits) : "–");

export async function show(root, { api, t, route, language, go, signal }) {
  const { runs } = await api.get("/runs", { signal });
  const reports = runs.filter((one) => one.report);
  const wanted = route.rest[0] ?? reports[0]?.id;
  if (!wanted) {
    fill(root, el("h1", {}, t("report_title")), el("p", { class: "card muted" }, t("report_none")));
    return;
  }
  const found = await api.get(`/runs/${encodeURIComponent(wanted)}/report`, { signal });
  const choose = el(
    "select",
    { id: "report-choose", onchange: (event) => go(`#/report/${event.target.value}`) },
    reports.map((one) => el("option", { value: one.id, selected: one.id === wanted }, one.name)),
  );
  const charts = [];
  signal.addEventListener("abort", () => charts.forEach((one) => one.close()));
  const made = (options) => {
    const one = new Chart(options);
    charts.push(one);
    return one;
  };
  fill(
    root,
    el(
      "div",
      { class: "stack" },
      el(
        "div",
        { class: "row spread" },
        el("h1", {}, found.name),
        reports.length > 1 ? el("label", { class: "check", for: "report-choose" }, t("report_choose"), choose) : null,
      ),
      el(
        "p",
        { class: "muted" },
        t("report_from", { task: found.task, model: found.model }),
        found.summary ? ` · ${said(found.summary, language)}` : "",
      ),
      found.notes.map((one) => notice(one)),
      found.sweep ? threshold(found.sweep, t, made) : null,
      matrices(found, t, language),
      found.tables.filter((one) => ["scores", "compare"].includes(one.key)).map((one) => tableCard(one, language)),
      calibration(found, t, made, language),
      found.tables.filter((one) => !["scores", "compare"].includes(one.key)).map((one) => tableCard(one, language)),
    ),
  );
}

// ---------------------------------------------------------------- the threshold

// What a stop of the sweep gives; the counts come from the server.
export function read(sweep, stop) {
  const yes = sweep.true[stop],
    wrong = sweep.false[stop];
  return {
    threshold: sweep.stops[stop],
    precision: share(yes, yes + wrong),
    recall: share(yes, sweep.positives),
    f1: share(2 * yes, yes + wrong + sweep.positives),
    accuracy: share(yes + sweep.negatives - wrong, sweep.positives + sweep.negatives),
    fall_out: share(wrong, sweep.negatives),
    confusion: [
      [sweep.negatives - wrong, wrong],
      [sweep.positives - yes, yes],
    ],
  };
}

const FIGURES = ["precision", "recall", "f1", "accuracy", "fall_out"];

function threshold(sweep, t, made) {
  const all = sweep.stops.map((_, stop) => read(sweep, stop));
  const series = (key, tone) => ({ name: t(key), tone, look: "line", x: sweep.stops, y: all.map((one) => one[key]) });
  const curves = made({
    title: `${t("precision")} · ${t("recall")} · ${t("f1")}`,
    xName: t("threshold"),
    x: (value) => value.toFixed(2),
    key: "threshold",
    format: say,
    tall: true,
  });
  const pr = made({ title: t("precision_recall"), xName: t("recall"), x: say, format: say, key: "pr" });
  const roc = made({ title: t("roc"), xName: t("fall_out"), x: say, format: say, key: "roc" });
  const turned = [...all].reverse(); // rising recall and false positive rate
  const known = turned.filter((one) => Number.isFinite(one.precision));
  const numbers = Object.fromEntries(["threshold", ...FIGURES].map((key) => [key, el("dd", { "data-read": key })]));
  const matrix = el("div", {});
  const input = el("input", {
    type: "range",
    id: "threshold",
    min: "0",
    max: String(sweep.stops.length - 1),
    step: "1",
    oninput: () => move(Number(input.value)),
  });
  const back = el(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: () => {
        input.value = String(sweep.at);
        move(sweep.at);
      },
    },
    `${t("threshold_back")} (${sweep.stops[sweep.at].toFixed(2)})`,
  );

  function move(stop) {
    const now = all[stop],
      x = now.threshold;
    for (const [key, node] of Object.entries(numbers)) fill(node, say(now[key], key === "threshold" ? 2 : 3));
    fill(matrix, confusionTable(now.confusion, sweep.names, t));
    input.setAttribute(
      "aria-valuetext",
      `${say(x, 2)}: ${["precision", "recall", "f1"].map((key) => `${t(key)} ${say(now[key])}`).join(", ")}`,
    );
    curves.draw({
      series: [series("precision", 1), series("recall", 2), series("f1", 3)],
      ends: [0, 1],
      range: [0, 1],
      marks: [
        { x: sweep.stops[sweep.at], kind: "own", text: t("threshold_own") },
        { x, kind: "now", text: "" },
      ],
    });
    pr.draw({
      series: [
        {
          name: t("precision"),
          tone: 1,
          look: "line",
          x: known.map((one) => one.recall),
          y: known.map((one) => one.precision),
        },
      ],
      spots: [{ x: now.recall, y: now.precision, tone: 1 }],
      ends: [0, 1],
      range: [0, 1],
    });
    roc.draw({
      series: [
        { name: "", tone: 8, look: "even", x: [0, 1], y: [0, 1] },
        {
          name: t("recall"),
          tone: 1,
          look: "line",
          x: turned.map((one) => one.fall_out),
          y: turned.map((one) => one.recall),
        },
      ],
      spots: [{ x: now.fall_out, y: now.recall, tone: 1 }],
      ends: [0, 1],
      range: [0, 1],
    });
  }

  input.value = String(sweep.at);
  const card = el(
    "section",
    { class: "card", "aria-label": t("threshold") },
    el("h2", {}, t("threshold")),
    el("p", { class: "muted" }, t("threshold_note", { name: sweep.names[1] })),
    el(
      "div",
      { class: "threshold" },
      el(
        "div",
        {},
        legend(
          [
            ["precision", 1],
            ["recall", 2],
            ["f1", 3],
          ],
          t,
        ),
        curves.element,
        el(
          "div",
          { class: "slide" },
          el("label", { for: "threshold", class: "visually-hidden" }, t("threshold")),
          input,
          el("div", {}, back),
        ),
      ),
      el(
        "div",
        {},
        el(
          "dl",
          { class: "figures" },
          Object.entries(numbers).map(([key, node]) => el("div", {}, el("dt", {}, t(key)), node)),
        ),
        matrix,
      ),
    ),
    el("div", { class: "pair" }, pr.element, roc.element),
  );
  move(sweep.at);
  return card;
}

function legend(keys, t) {
  return el(
    "p",
    { class: "row small" },
    keys.map(([key, tone]) => el("span", {}, el("span", { class: `swatch c${tone}`, "aria-hidden": "true" }), t(key))),
  );
}

// ---------------------------------------------------------------- matrices and tables

function confusionTable(counts, names, t) {
  const many = names.length > 6;
  return el(
    "table",
    { class: many ? "matrix many" : "matrix" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("td", { class: "muted small" }, t("right_said")),
        names.map((name) => el("th", { scope: "col" }, name)),
      ),
    ),
    el(
      "tbody",
      {},
      counts.map((row, i) => {
        const sum = row.reduce((a, b) => a + b, 0);
        return el(
          "tr",
          {},
          el("th", { scope: "row" }, names[i]),
          row.map((count, j) =>
            el(
              "td",
              {
                class: i === j ? "hit" : "miss",
                style: { "--heat": String(sum ? count / sum : 0) },
                "data-cell": `${i}${j}`,
              },
              count.toLocaleString("en"),
              many ? null : el("small", {}, sum ? `${Math.round((100 * count) / sum)}%` : "–"),
            ),
          ),
        );
      }),
    ),
  );
}

function matrices(found, t, language) {
  const shown = found.confusion.filter((one) => !(found.sweep && one.split === "dev"));
  return shown.map((one) =>
    el(
      "section",
      { class: "card" },
      el("h2", {}, t("confusion", { split: told(one.split, language) })),
      el("p", { class: "muted small" }, t("confusion_note")),
      el(
        "div",
        { class: "scroll", tabindex: "0", role: "group", "aria-label": t("confusion", { split: told(one.split, language) }) },
        confusionTable(one.counts, one.labels, t),
      ),
    ),
  );
}

function calibration(found, t, made, language) {
  if (!found.reliability.length) return null;
  const chart = made({ title: t("reliability"), xName: t("how_sure"), x: say, format: say, key: "reliability" });
  const bins = [...found.reliability].sort((a, b) => a[0] - b[0]);
  const low = Math.floor(10 * Math.min(...bins.map(([sure]) => sure))) / 10;
  chart.draw({
    ends: [low, 1],
    range: [Math.min(low, ...bins.map(([, right]) => right)), 1],
    series: [
      { name: "", tone: 8, look: "even", x: [low, 1], y: [low, 1] },
      { name: t("how_right"), tone: 1, look: "dots", x: bins.map(([sure]) => sure), y: bins.map(([, right]) => right) },
    ],
  });
  return el(
    "section",
    { class: "card", "aria-label": t("reliability") },
    el("div", { class: "pair" }, chart.element),
    el("p", { class: "muted small" }, said(found.calibration, language)),
  );
}

const TEXTS = ["text", "question", "context", "pair", "what to do", "places"];

function tableCard(one, language) {
  const title = said(one.title, language);
  const bars = one.bars.some((row) => row.length);
  const at = (value) => `${100 * Math.max(0, Math.min(1, value))}%`;
  const cell = ([text, note], column) => {
    const attributes = {
      class:
        one.align[column] === "r"
          ? "number"
          : TEXTS.includes(one.head[column])
            ? "text"
            : one.head[column] === "place"
              ? "place"
              : null,
    };
    const inside = [
      told(text, (one.key === "scores" && !column) || ["settings", "decision"].includes(one.key) ? language : ""),
      note ? el("small", {}, note) : null,
    ];
    return column ? el("td", attributes, inside) : el("th", { scope: "row", ...attributes }, inside);
  };
  const table = el(
    "table",
    { class: "reporttable" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        one.head.map((name, i) =>
          el("th", { scope: "col", class: one.align[i] === "r" ? "number" : null }, told(name, language)),
        ),
        bars ? el("td", { class: "spans muted" }, one.key === "labels" ? told("count", language) : "") : null,
      ),
    ),
    el(
      "tbody",
      {},
      one.rows.map((row, i) =>
        el(
          "tr",
          { class: i === one.strong ? "strong" : null },
          row.map(cell),
          bars
            ? el(
                "td",
                { class: "spans", "aria-hidden": "true" },
                (one.bars[i] ?? []).map((span) =>
                  el(
                    "span",
                    { class: `span ${span.look === "test" ? "test" : ""}` },
                    el("i", { style: { left: at(span.low), width: at(span.high - span.low) } }),
                    span.at === null ? null : el("i", { class: "at", style: { left: at(span.at) } }),
                  ),
                ),
              )
            : null,
        ),
      ),
    ),
  );
  const inside = [
    one.note ? el("p", { class: "muted small" }, said(one.note, language)) : null,
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": title }, table),
  ];
  if (["settings", "data", "epochs", "trials", "decision"].includes(one.key)) {
    return el("section", { class: "card" }, el("details", {}, el("summary", {}, title), inside));
  }
  return el("section", { class: "card", "data-table": one.key }, el("h2", {}, title), inside);
}
