// Runs: live curves of training runs, several in one chart, with events and settings.

import { Chart, Cursor, compact, precise, smooth } from "./chart.js";
import { el, fill } from "./dom.js";
import { notice } from "./parts.js";
import { RunData, follow } from "./run_data.js";
import { eventsTable, settingsTable } from "./run_tables.js";
import "./words_runs.js";

const MOST = 8; // colours
const LISTING = 4000; // ms between looks at the list
const FRAME = 200; // ms between drawings
const look = { x: "step", log: false, smoothing: 10, metric: "" }; // stays while the page is open

const rate = (value) => (value ? value.toExponential(2).replace(/\.?0*e/, "e") : "0");
const percent = (value) => `${Number((100 * value).toPrecision(3))}%`;

export async function show(root, { api, t, go, route, signal }) {
  let listing = await api.get("/runs", { signal });
  const followed = new Map(); // id -> {data, stop, state, details}
  const tones = new Map(); // id -> 1..8, kept while it is shown
  let filter = "",
    drawn = 0,
    timer = 0;

  // ---------------------------------------------------------------- frame
  const list = el("ul", { class: "runlist", "aria-label": t("runs_list") });
  const find = el("input", {
    type: "text",
    placeholder: t("runs_filter"),
    "aria-label": t("runs_filter"),
    oninput: () => {
      filter = find.value.toLowerCase();
      showList();
    },
  });
  const status = el("p", { class: "notice", role: "status", hidden: true });
  const charts = el("div", { class: "charts" });
  const below = el("div", { class: "stack" });
  const smoothing = el("output", { class: "small muted number" });
  const metric = el("select", {
    id: "metric",
    onchange: () => {
      look.metric = metric.value;
      draw();
    },
  });
  const metricField = el("label", { class: "check", for: "metric", hidden: true }, t("dev_score"), metric);
  const controls = el(
    "div",
    { class: "row controls" },
    el(
      "label",
      { class: "check" },
      t("x_axis"),
      el(
        "select",
        {
          id: "across",
          onchange: (event) => {
            look.x = event.target.value;
            draw();
          },
        },
        ["step", "tokens", "minutes"].map((one) =>
          el("option", { value: one, selected: one === look.x }, t(`x_${one}`)),
        ),
      ),
    ),
    el(
      "label",
      { class: "check" },
      el("input", {
        type: "checkbox",
        id: "logarithmic",
        checked: look.log,
        onchange: (event) => {
          look.log = event.target.checked;
          draw();
        },
      }),
      t("x_log"),
    ),
    el(
      "label",
      { class: "check" },
      t("smoothing"),
      el("input", {
        type: "range",
        id: "smoothing",
        min: "0",
        max: "100",
        value: String(look.smoothing),
        oninput: (event) => {
          look.smoothing = Number(event.target.value);
          draw();
        },
      }),
      smoothing,
    ),
    metricField,
  );
  const empty = el("p", { class: "card muted" }, t("runs_pick"));
  const about = el("div", {});
  const board = el(
    "div",
    { class: "stack board" },
    status,
    controls,
    charts,
    about,
    el("p", { class: "small muted" }, t("legend_note")),
    below,
  );
  fill(
    root,
    el("h1", {}, t("runs_title")),
    el(
      "div",
      { class: "rungrid" },
      el("section", { class: "card side", "aria-label": t("runs_list") }, find, list),
      el("div", { class: "stack" }, empty, board),
    ),
  );

  const cursor = new Cursor();
  const made = new Map(); // key -> Chart

  function chart(key, options) {
    if (!made.has(key)) made.set(key, new Chart({ key, cursor, ...options }));
    const found = made.get(key);
    found.x = look.x === "minutes" ? (value) => value.toFixed(1) : (value) => Math.round(value).toLocaleString("en");
    found.xName = t(`one_${look.x}`);
    return found;
  }

  // ---------------------------------------------------------------- the list
  function ordered() {
    const children = new Map();
    const known = new Set(listing.runs.map((one) => one.id));
    for (const one of listing.runs)
      if (one.parent && known.has(one.parent)) children.set(one.parent, [...(children.get(one.parent) ?? []), one]);
    return listing.runs
      .filter((one) => !one.parent || !known.has(one.parent))
      .flatMap((one) => [one, ...(children.get(one.id) ?? []).sort((a, b) => a.name.localeCompare(b.name))]);
  }

  function showList() {
    const focused = document.activeElement?.dataset?.run;
    const rows = ordered().filter((one) => one.name.toLowerCase().includes(filter));
    fill(
      list,
      rows.map(item),
      rows.length ? null : el("li", { class: "muted" }, t("runs_none")),
      listing.more ? el("li", { class: "muted small" }, t("runs_more", { n: listing.runs.length })) : null,
    );
    if (focused) list.querySelector(`[data-run="${CSS.escape(focused)}"]`)?.focus();
  }

  function item(one) {
    const tone = tones.get(one.id),
      name = one.parent ? one.name.split("/").at(-1) : one.name;
    const told = [
      t(`kind_${one.kind}`) + (one.task ? ` · ${one.task}` : ""),
      one.steps ? t("steps_n", { n: one.steps.toLocaleString("en") }) : null,
      one.loss === null ? null : t("loss_n", { n: precise(one.loss) }),
      one.best ? t("best_n", { name: one.best.name, n: precise(one.best.value) }) : null,
    ]
      .filter(Boolean)
      .join(" · ");
    const words = [
      el("span", { class: "runname" }, name),
      el("span", { class: `state ${one.state}` }, t(`state_${one.state}`)),
      el("span", { class: "small muted about" }, told),
    ];
    const box = one.log
      ? el(
          "label",
          {},
          el("input", {
            type: "checkbox",
            "data-run": one.id,
            checked: tone !== undefined,
            onchange: () => toggle(one.id),
          }),
          el("span", { class: tone ? `swatch c${tone}` : "swatch", "aria-hidden": "true" }),
          el("span", { class: "words" }, words),
        )
      : el("div", { class: "label" }, el("span", { class: "words" }, words));
    return el(
      "li",
      { class: one.parent ? "inner" : null },
      box,
      one.report
        ? el(
            "a",
            {
              class: "small",
              href: `#/report/${encodeURIComponent(one.id)}`,
              "aria-label": `${t("open_report")}: ${one.name}`,
            },
            t("open_report"),
          )
        : null,
    );
  }

  function toggle(id) {
    if (followed.has(id)) drop(id);
    else if (followed.size >= MOST) {
      status.hidden = false;
      fill(status, t("runs_most", { n: MOST }));
    } else take(id);
    address();
    showList();
    draw();
  }

  const address = () => go(followed.size ? `#/runs/${[...followed.keys()].join(",")}` : "#/runs", { quiet: true });

  function take(id) {
    const stop = new AbortController();
    signal.addEventListener("abort", () => stop.abort(), { signal: stop.signal });
    const one = { data: new RunData(id), stop, state: "reading", details: null };
    followed.set(id, one);
    const free = Array.from({ length: MOST }, (_, i) => i + 1).find((tone) => ![...tones.values()].includes(tone));
    tones.set(id, free);
    follow(one.data, api, stop.signal, soon, (state) => {
      if (one.state !== state) {
        one.state = state;
        tellLink();
      }
    });
    api
      .get(`/runs/${encodeURIComponent(id)}`, { signal: stop.signal })
      .then((found) => {
        one.details = found;
        soon();
      })
      .catch(() => {});
  }

  function drop(id) {
    followed.get(id).stop.abort();
    followed.delete(id);
    tones.delete(id);
  }

  function tellLink() {
    const states = [...followed.values()].map((one) => one.state);
    const bad = states.includes("broken") ? "link_broken" : states.includes("gone") ? "link_gone" : "";
    status.hidden = !bad;
    fill(status, bad ? t(bad) : "");
    board.dataset.link = bad ? "broken" : states.includes("live") ? "live" : "done";
  }

  // ---------------------------------------------------------------- drawing
  function soon() {
    timer ||= setTimeout(
      () => {
        timer = 0;
        if (!signal.aborted) draw();
      },
      Math.max(0, drawn + FRAME - performance.now()),
    );
  }

  const nameOf = (id) => {
    const full = listing.runs.find((one) => one.id === id)?.name ?? id,
      short = full.split("/").at(-1);
    const twins = [...followed.keys()].filter(
      (other) => (listing.runs.find((one) => one.id === other)?.name ?? other).split("/").at(-1) === short,
    );
    return twins.length > 1 ? full : short;
  };

  const shown = () => [...followed].map(([id, one]) => ({ id, ...one, tone: tones.get(id), name: nameOf(id) }));

  function curves(runs, column, { held = null, smoothed = true } = {}) {
    const series = [];
    for (const { data, tone, name } of runs) {
      const y = column(data),
        x = data.x(look.x);
      if (y?.length) {
        const half = smoothed ? Math.round((y.length * look.smoothing) / 2000) : 0;
        if (half) series.push({ name, tone, look: "raw", x, y });
        series.push({ name, tone, look: "line", x, y: half ? smooth(y, half) : y });
      }
      const points = held
        ? data.held.map((one) => [one[look.x], held(one, data)]).filter(([, value]) => Number.isFinite(value))
        : [];
      if (points.length)
        series.push({
          name: `${name}, ${t("held_out")}`,
          tone,
          look: "dots",
          x: points.map(([x]) => x),
          y: points.map(([, y]) => y),
        });
    }
    return series;
  }

  function marks(runs) {
    return runs.flatMap(({ data, name }) =>
      data.events
        .filter((one) => ["resume", "finding", "nan", "save"].includes(one.kind))
        .map((one) => ({
          x: one[look.x],
          kind: one.kind,
          text:
            one.kind === "save"
              ? ""
              : `${name}: ${t(`event_${one.kind}`)}${one.entry.fault ? `: ${one.entry.fault}` : ""}`,
        })),
    );
  }

  function levels(runs) {
    const found = new Map();
    for (const { data, tone } of runs) {
      for (const [kind, value] of data.floors) {
        const key = `${kind} ${value.toFixed(3)}`;
        found.set(key, {
          name: t(`floor_${kind}`, { n: value.toFixed(2) }),
          value,
          tone: runs.length > 1 && !found.has(key) ? tone : 0,
        });
      }
    }
    return [...found.values()];
  }

  function draw() {
    drawn = performance.now();
    const runs = shown(),
      any = runs.length > 0;
    empty.hidden = any || !listing.runs.length;
    board.hidden = !any;
    if (!any) return;
    const longest = Math.max(...runs.map(({ data }) => data.step.length), 0),
      window = 2 * Math.round((longest * look.smoothing) / 2000) + 1;
    fill(smoothing, window > 1 ? t("smoothing_n", { n: window }) : t("smoothing_none"));
    board.dataset.points = String(runs.reduce((sum, { data }) => sum + data.step.length, 0));
    board.dataset.lines = String(runs.reduce((sum, { data }) => sum + data.lines, 0));
    const shownCharts = [];
    const put = (key, options, model) => {
      const one = chart(key, options);
      one.draw({ log: look.log, ...model });
      shownCharts.push(one.element);
    };

    const metrics = [...new Set(runs.flatMap(({ data }) => data.dev.flatMap((one) => Object.keys(one.scores))))];
    const usual = metrics.includes(look.metric)
      ? look.metric
      : (runs
          .map(({ data, id }) => data.metric || listing.runs.find((one) => one.id === id)?.best?.name)
          .find((name) => metrics.includes(name)) ?? metrics[0]);
    metricField.hidden = metrics.length < 2;
    if (metric.dataset.all !== metrics.join("\n")) {
      metric.dataset.all = metrics.join("\n");
      fill(
        metric,
        metrics.map((one) => el("option", { value: one, selected: one === usual }, one)),
      );
    }

    const goals = [...new Set(runs.map(({ data }) => data.goal))].filter(Boolean).join(" / ");
    const stars = runs
      .filter(({ data }) => !data.dev.length)
      .map(({ data, tone }) => ({ best: data.best(), tone }))
      .filter(({ best }) => best);
    put(
      "loss",
      { title: t("chart_loss", { goal: "" }).trim(), tall: true, note: t("unit_nats") },
      {
        series: curves(runs, (data) => data.loss[data.goal], { held: (one, data) => one.parts[data.goal]?.loss }),
        levels: levels(runs),
        marks: marks(runs),
        spots: stars.map(({ best, tone }) => ({ x: best[look.x], y: best.value, tone, star: true })),
      },
    );
    made.get("loss").rename(t("chart_loss", { goal: goals }));
    if (metrics.length) {
      const series = runs
        .map(({ data, tone, name }) => ({
          name,
          tone,
          look: "dots",
          x: data.dev.map((one) => one[look.x]),
          y: data.dev.map((one) => one.scores[usual] ?? NaN),
        }))
        .filter((one) => one.x.length);
      const best = runs
        .map(({ data, tone }) => ({ best: data.dev.length ? data.best(usual) : null, tone }))
        .filter(({ best: one }) => one);
      put(
        "dev",
        { title: "" },
        { series, spots: best.map(({ best: one, tone }) => ({ x: one[look.x], y: one.value, tone, star: true })) },
      );
      made.get("dev").rename(t("chart_dev", { name: usual }));
    }
    const every = [...new Set(runs.flatMap(({ data }) => data.goals))];
    for (const goal of every) {
      const series = curves(runs, (data) => data.accuracy[goal], { held: (one) => one.parts[goal]?.accuracy });
      if (series.length)
        put(`accuracy ${goal}`, { title: t("chart_accuracy", { goal }), format: percent, axis: percent }, { series });
    }
    for (const goal of every.filter((one) => runs.some(({ data }) => data.goal !== one && data.loss[one]))) {
      const having = runs.filter(({ data }) => data.goal !== goal);
      put(
        `loss ${goal}`,
        { title: t("chart_loss", { goal }), note: t("unit_nats") },
        { series: curves(having, (data) => data.loss[goal], { held: (one) => one.parts[goal]?.loss }) },
      );
    }
    put(
      "lr",
      { title: t("chart_lr"), format: rate, axis: rate },
      { series: curves(runs, (data) => data.columns.lr, { smoothed: false }), zero: true },
    );
    put(
      "gradient",
      { title: t("chart_gradient"), note: t("unit_clip") },
      { series: curves(runs, (data) => data.columns.gradient), zero: true },
    );
    put(
      "speed",
      { title: t("chart_speed"), note: t("unit_speed") },
      { series: curves(runs, (data) => data.columns.tokens_per_second), zero: true },
    );
    if (shownCharts.length !== charts.children.length || shownCharts.some((one, i) => charts.children[i] !== one))
      fill(charts, shownCharts);
    fill(about, facts(runs));
    // made anew only when they change: somebody may be reading, or have the focus there
    const news = JSON.stringify([
      usual,
      runs.map(({ id, tone, data, details }) => [
        id,
        tone,
        data.events.length,
        data.held.length,
        data.step[0],
        Boolean(details),
      ]),
    ]);
    if (below.dataset.of !== news) {
      below.dataset.of = news;
      fill(below, eventsTable(runs, t, usual), settingsTable(runs, t));
    }
  }

  function facts(runs) {
    return el(
      "ul",
      { class: "legend", "aria-label": t("runs_list") },
      runs.map(({ data, tone, id }) =>
        el(
          "li",
          {},
          el("span", { class: `swatch c${tone}`, "aria-hidden": "true" }),
          el("b", {}, listing.runs.find((one) => one.id === id)?.name ?? id),
          el(
            "span",
            { class: "muted small" },
            [
              data.facts.parameters ? `${compact(Number(data.facts.parameters))} ${t("facts_parameters")}` : null,
              data.tokens.length ? `${compact(data.tokens.at(-1))} ${t("facts_tokens")}` : null,
              data.minutes.length ? `${data.minutes.at(-1).toFixed(1)} ${t("facts_minutes")}` : null,
              data.facts.verdict ?? null,
            ]
              .filter(Boolean)
              .join(" · "),
          ),
        ),
      ),
    );
  }

  // ---------------------------------------------------------------- begin
  const asked = (route.rest[0] ?? "").split(",").filter(Boolean);
  const known = asked.filter((id) => listing.runs.some((one) => one.id === id && one.log)).slice(0, MOST);
  const usual = listing.runs.find((one) => one.log && one.state === "running") ?? listing.runs.find((one) => one.log);
  for (const id of known.length ? known : usual ? [usual.id] : []) take(id);
  if (asked.length && !known.length) root.prepend(notice(t("link_gone")));
  showList();
  draw();
  const again = setInterval(async () => {
    if (document.hidden) return;
    try {
      const before = JSON.stringify(listing);
      listing = await api.get("/runs", { signal });
      if (!followed.size && listing.runs.some((one) => one.log)) {
        take(listing.runs.find((one) => one.log).id);
        draw();
      }
      if (JSON.stringify(listing) !== before) showList();
    } catch {
      // the curves say that the server is away
    }
  }, LISTING);
  signal.addEventListener("abort", () => {
    clearInterval(again);
    clearTimeout(timer);
    for (const one of made.values()) one.close();
  });
}
