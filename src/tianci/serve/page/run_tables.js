// What happened in runs besides steps, and how they were set.

import { precise } from "./chart.js";
import { el } from "./dom.js";

const SHOWN = 200; // newest events

// ---------------------------------------------------------------- events

function eventsOf({ data, name, tone }, t, metric) {
  const rows = [];
  const saves = data.events.filter((one) => one.kind === "save");
  if (saves.length)
    rows.push({
      step: saves.at(-1).step,
      kind: "save",
      text: saves.length > 1 ? t("event_saves", { n: saves.length }) : t("event_save"),
    });
  for (const one of data.events) {
    const entry = one.entry;
    if (one.kind === "start" || one.kind === "resume")
      rows.push({
        ...one,
        text: [t(`event_${one.kind}`), entry.lr ? `lr ${precise(entry.lr)}` : null].filter(Boolean).join(" · "),
      });
    else if (one.kind === "finding")
      rows.push({ ...one, text: `${t("event_finding")} · ${entry.fault ?? ""}: ${entry.message ?? ""}` });
    else if (one.kind === "nan") rows.push({ ...one, text: t("event_nan") });
    else if (one.kind === "stop") rows.push({ ...one, text: `${t("event_stop")} · ${entry.reason ?? ""}` });
    else if (one.kind === "end")
      rows.push({ ...one, text: [t("event_end"), entry.verdict].filter(Boolean).join(" · ") });
  }
  const best = data.best(metric);
  if (best)
    rows.push({ step: best.step, kind: "best", text: `${t("event_best")} · ${best.name} ${precise(best.value)}` });
  return rows.map((one) => ({ ...one, run: name, tone }));
}

export function eventsTable(runs, t, metric) {
  const rows = runs
    .flatMap((run) => eventsOf(run, t, metric))
    .sort((a, b) => b.step - a.step)
    .slice(0, SHOWN);
  return el(
    "section",
    { class: "card events", "aria-label": t("events") },
    el("h2", {}, t("events")),
    rows.length
      ? el(
          "div",
          { class: "scroll", tabindex: "0", role: "group", "aria-label": t("events") },
          el(
            "table",
            {},
            el(
              "thead",
              {},
              el(
                "tr",
                {},
                el("th", { class: "number" }, t("step")),
                runs.length > 1 ? el("th", {}, t("run")) : null,
                el("th", {}, t("what")),
              ),
            ),
            el(
              "tbody",
              {},
              rows.map((one) =>
                el(
                  "tr",
                  { class: one.kind },
                  el("td", { class: "number" }, Number.isFinite(one.step) ? one.step.toLocaleString("en") : "–"),
                  runs.length > 1
                    ? el("td", {}, el("span", { class: `swatch c${one.tone}`, "aria-hidden": "true" }), one.run)
                    : null,
                  el("td", {}, el("i", { class: `sign ${one.kind}`, "aria-hidden": "true" }), one.text),
                ),
              ),
            ),
          ),
        )
      : el("p", { class: "muted" }, t("events_none")),
  );
}

// ---------------------------------------------------------------- settings

let all = false;

const shownValue = (value, t) => {
  if (value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length))
    return t("not_set");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};

export function settingsTable(runs, t) {
  const having = runs.filter((one) => one.details);
  if (!having.length) return null;
  const names = [...new Set(having.flatMap((one) => Object.keys(one.details.settings)))];
  const rows = names.map((name) => ({ name, values: having.map((one) => shownValue(one.details.settings[name], t)) }));
  const differ = (row) => new Set(row.values).size > 1;
  const several = having.length > 1;
  const told = (row) => (several ? differ(row) : row.values[0] !== t("not_set"));
  const body = el("tbody", {});
  const render = () =>
    body.replaceChildren(
      ...rows
        .filter((row) => all || told(row))
        .map((row) =>
          el(
            "tr",
            { class: several && differ(row) ? "differs" : null },
            el("th", { scope: "row" }, row.name),
            row.values.map((value) => el("td", { class: value === t("not_set") ? "muted" : null }, value)),
          ),
        ),
    );
  render();
  return el(
    "section",
    { class: "card settings", "aria-label": t("settings") },
    el(
      "div",
      { class: "row spread" },
      el("h2", {}, t(several ? "settings_diff" : "settings")),
      el(
        "label",
        { class: "check" },
        el("input", {
          type: "checkbox",
          checked: all,
          onchange: (event) => {
            all = event.target.checked;
            render();
          },
        }),
        t("settings_all"),
      ),
    ),
    several && !rows.some(differ) ? el("p", { class: "muted" }, t("settings_same")) : null,
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "group", "aria-label": t("settings") },
      el(
        "table",
        {},
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", {}, t("setting")),
            having.map((one) =>
              el("th", {}, el("span", { class: `swatch c${one.tone}`, "aria-hidden": "true" }), one.name),
            ),
          ),
        ),
        body,
      ),
    ),
  );
}
