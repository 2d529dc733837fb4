// Map: the texts of a file as points; near vectors lie near each other.

import { el, fill } from "./dom.js";
import { LOOKS, Plot, looks, sign } from "./map_plot.js";
import { guess, pick, readTable } from "./map_read.js";
import { field, notice, percent } from "./parts.js";
import "./words_runs.js";

const BATCH = 32;
const EXAMPLE = `label\ttext
weather\tIt will rain all day tomorrow.
weather\t今天天气不错，适合出门。
weather\tA cold wind blows from the north.
weather\t明天有雷阵雨。
food\tThe soup was hot and tasty.
food\t这家餐馆的菜很好吃。
food\tShe baked fresh bread this morning.
food\t早餐有粥和包子。
travel\tOur train to Oslo leaves at nine.
travel\t酒店离机场很近。
travel\tWe booked a room with a view of the sea.
travel\t去北京的航班晚点了。`;

export async function show(root, { api, t, info, signal }) {
  const able = info.models.filter((one) => one.abilities.includes("embed"));
  let table = null,
    work = null,
    items = [],
    placed = {},
    layout = "tsne";

  // ---------------------------------------------------------------- what to draw
  const model = el(
    "select",
    {},
    able.map((one) => el("option", { value: one.name }, one.name)),
  );
  const file = el("input", {
    type: "file",
    accept: ".txt,.tsv,.csv,.jsonl,.json,.ndjson,text/*",
    id: "map-file",
    onchange: () => {
      if (file.files[0]) take(file.files[0]);
    },
  });
  const paste = el("textarea", { class: "short", id: "map-paste", oninput: () => read("pasted", paste.value) });
  const text = el("select", { onchange: count }),
    label = el("select", { onchange: count });
  const columns = el("div", { class: "stack", hidden: true }, field(t("map_text"), text), field(t("map_label"), label));
  const counted = el("p", { class: "small muted", role: "status" });
  const wrong = el("div", {});
  const start = el("button", { class: "main", type: "button", disabled: true, onclick: begin }, t("map_draw"));
  const stop = el("button", { type: "button", hidden: true, onclick: () => work?.abort() }, t("map_stop"));
  const drop = el(
    "div",
    {
      class: "drop",
      ondragover: (event) => {
        event.preventDefault();
        drop.classList.add("over");
      },
      ondragleave: () => drop.classList.remove("over"),
      ondrop: (event) => {
        event.preventDefault();
        drop.classList.remove("over");
        if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
      },
    },
    el("label", { for: "map-file" }, t("map_file")),
    file,
  );
  const bar = el("progress", { max: "1", value: "0", hidden: true, "aria-label": t("map_draw") });
  const doing = el("p", { class: "small muted", role: "status" });

  // ---------------------------------------------------------------- the map
  const plot = new Plot({ t, label: t("map_plot", { n: 0 }), choose: (i) => choose(i, false), signal });
  const ways = el("div", { class: "row", role: "group", "aria-label": t("map_layout") });
  const legend = el("div", { class: "maplegend", role: "group", "aria-label": t("map_legend") });
  const shares = el("p", { class: "small muted" });
  const hits = el("span", { class: "small muted", role: "status" });
  const find = el("input", { type: "text", id: "map-find", oninput: search });
  const list = el("ul", {
    class: "points",
    role: "listbox",
    tabindex: "0",
    "aria-label": t("map_points"),
    onkeydown: walk,
    onclick: (event) => {
      const at = [...list.children].indexOf(event.target.closest("li"));
      if (at >= 0) choose(at, true);
    },
  });
  const board = el(
    "div",
    { class: "stack", hidden: true },
    el(
      "section",
      { class: "card stack", "aria-label": t("map_title") },
      el("div", { class: "row spread" }, ways, shares),
      plot.element,
      legend,
    ),
    el(
      "section",
      { class: "card", "aria-label": t("map_points") },
      el("div", { class: "row spread" }, el("h2", {}, t("map_points")), hits),
      field(t("map_find"), find),
      list,
    ),
  );
  fill(
    root,
    el("h1", {}, t("map_title")),
    el(
      "div",
      { class: "mapgrid" },
      el(
        "section",
        { class: "card stack", "aria-label": t("map_file") },
        el("p", { class: "small muted" }, t("map_about")),
        drop,
        field(
          t("map_paste"),
          paste,
          el(
            "button",
            {
              type: "button",
              class: "chip",
              onclick: () => {
                paste.value = EXAMPLE;
                read("pasted", EXAMPLE);
              },
            },
            t("map_example"),
          ),
        ),
        columns,
        able.length > 1 ? field(t("map_model"), model) : null,
        counted,
        wrong,
        el("div", { class: "row" }, start, stop),
        bar,
        doing,
      ),
      board,
    ),
  );
  signal.addEventListener("abort", () => work?.abort());

  // ---------------------------------------------------------------- reading
  async function take(chosen) {
    paste.value = "";
    read(chosen.name, await chosen.text());
  }

  function read(name, content) {
    fill(wrong);
    table = null;
    try {
      table = readTable(name, content);
    } catch (error) {
      fill(wrong, notice(error.line ? t("map_unreadable", { n: error.line }) : error.message));
    }
    columns.hidden = !table || table.columns.length < 2;
    if (table) {
      const usual = guess(table);
      const option = (name, i, chosen) =>
        el(
          "option",
          { value: String(i), selected: i === chosen },
          /^\d+$/.test(name) ? t("map_column", { n: name }) : name,
        );
      fill(
        text,
        table.columns.map((one, i) => option(one, i, usual.text)),
      );
      fill(
        label,
        el("option", { value: "-1", selected: usual.label < 0 }, t("map_no_label")),
        table.columns.map((one, i) => option(one, i, usual.label)),
      );
    }
    count();
  }

  const chosen = () => (table ? pick(table, Number(text.value), Number(label.value)) : { all: 0, items: [] });

  function count() {
    const { all, items: found } = chosen();
    start.disabled = found.length < 3 || Boolean(work);
    fill(
      counted,
      !table
        ? ""
        : found.length < 3
          ? t("map_few")
          : all > found.length
            ? t("map_thinned", { n: found.length, all })
            : t("map_rows", { n: all }),
    );
  }

  // ---------------------------------------------------------------- drawing
  async function begin() {
    work = new AbortController();
    const mine = work;
    start.disabled = true;
    stop.hidden = bar.hidden = false;
    fill(wrong);
    try {
      items = named(chosen().items);
      const vectors = await embed(items, mine.signal);
      board.hidden = false;
      placed = {};
      plot.set(items);
      plot.picture.setAttribute("aria-label", t("map_plot", { n: items.length }));
      showLegend();
      showList();
      await arrange(vectors, mine.signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error.name !== "AbortError") fill(wrong, notice(error.message));
    } finally {
      if (work === mine) work = null;
      stop.hidden = bar.hidden = true;
      fill(doing);
      count();
    }
  }

  // Labels with their looks, the frequent ones first.
  function named(found) {
    const counts = new Map();
    for (const one of found) counts.set(one.label, (counts.get(one.label) ?? 0) + 1);
    const order = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
    return found.map((one) => {
      const n = order.indexOf(one.label);
      return {
        ...one,
        group: n < LOOKS ? one.label : null,
        look: n < LOOKS ? looks(n) : { tone: 0, shape: "circle" },
        hidden: false,
        hit: false,
      };
    });
  }

  async function embed(found, stopped) {
    const size = Math.min(BATCH, info.limits?.inputs ?? BATCH),
      vectors = [];
    for (let i = 0; i < found.length; i += size) {
      fill(doing, t("map_embedding", { n: i, all: found.length }));
      bar.value = i / found.length;
      const body = {
        inputs: found.slice(i, i + size).map((one) => one.text),
        truncate: true,
        normalize: true,
        model: model.value,
      };
      vectors.push(...(await patient(() => api.post("/embed", body, { signal: stopped }), stopped)));
    }
    return vectors;
  }

  // Asks again while the server is busy with others.
  async function patient(ask, stopped) {
    for (let tries = 0; ; tries += 1) {
      try {
        return await ask();
      } catch (error) {
        if (error.status !== 429 || tries >= 20 || stopped.aborted) throw error;
        await new Promise((done) => {
          setTimeout(done, 1000);
        });
      }
    }
  }

  function arrange(vectors, stopped) {
    const count = vectors.length,
      width = vectors[0].length,
      flat = new Float32Array(count * width);
    vectors.forEach((one, i) => flat.set(one, i * width));
    const worker = new Worker("/page/map_worker.js", { type: "module" });
    return new Promise((done, failed) => {
      stopped.addEventListener("abort", () => {
        worker.terminate();
        done();
      });
      worker.onerror = (event) => {
        worker.terminate();
        failed(new Error(event.message || "the worker failed"));
      };
      worker.onmessage = ({ data }) => {
        placed[data.kind] = data.place;
        if (data.kind === "pca") {
          placed.shares = data.shares;
          plot.whole();
        } else {
          bar.value = data.share;
          fill(doing, t("map_tsne_at", { n: Math.round(100 * data.share) }));
        }
        arrangeShown();
        if (data.done) {
          worker.terminate();
          done();
        }
      };
      worker.postMessage({ vectors: flat, count, width }, [flat.buffer]);
    });
  }

  function arrangeShown() {
    const way = placed[layout] ? layout : "pca";
    plot.move(placed[way]);
    board.dataset.layout = way;
    if (ways.children.length) {
      for (const one of ways.children) one.setAttribute("aria-pressed", String(one.dataset.way === layout));
    } else {
      fill(
        ways,
        ["pca", "tsne"].map((one) =>
          el(
            "button",
            {
              type: "button",
              class: "chip",
              "data-way": one,
              "aria-pressed": String(one === layout),
              onclick: () => {
                layout = one;
                arrangeShown();
              },
            },
            t(`map_${one}`),
          ),
        ),
      );
    }
    fill(shares, way === "pca" ? t("map_shares", { n: percent(placed.shares.reduce((a, b) => a + b, 0)) }) : "");
  }

  // ---------------------------------------------------------------- legend, list, search
  function showLegend() {
    const groups = new Map();
    for (const one of items) groups.set(one.group, { look: one.look, n: (groups.get(one.group)?.n ?? 0) + 1 });
    const name = (group) => (group === null ? t("map_other") : group === "" ? t("map_unlabelled") : group);
    const button = ([group, { look, n }]) =>
      el(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-pressed": "true",
          onclick: (event) => {
            const on = event.currentTarget.getAttribute("aria-pressed") !== "true";
            event.currentTarget.setAttribute("aria-pressed", String(on));
            items.forEach((one, i) => {
              if (one.group === group) {
                one.hidden = !on;
                list.children[i].hidden = !on;
              }
            });
            plot.paint();
          },
        },
        sign(look),
        `${name(group)} (${n})`,
      );
    fill(legend, groups.size > 1 || !groups.has("") ? [...groups].sort((a, b) => b[1].n - a[1].n).map(button) : null);
  }

  function showList() {
    fill(
      list,
      items.map((one, i) =>
        el(
          "li",
          { role: "option", id: `point-${i}`, "aria-selected": "false" },
          one.text.length > 200 ? `${one.text.slice(0, 200)} …` : one.text,
          one.label ? el("small", {}, one.label) : null,
        ),
      ),
    );
    list.removeAttribute("aria-activedescendant");
    find.value = "";
    fill(hits);
  }

  function choose(i, scroll) {
    list.querySelector("[aria-selected='true']")?.setAttribute("aria-selected", "false");
    const row = list.children[i];
    row?.setAttribute("aria-selected", "true");
    if (row) list.setAttribute("aria-activedescendant", row.id);
    else list.removeAttribute("aria-activedescendant");
    if (scroll) row?.scrollIntoView({ block: "nearest" });
    plot.point(i);
  }

  function walk(event) {
    const rows = [...list.children].map((row, i) => (row.hidden ? -1 : i)).filter((i) => i >= 0),
      at = rows.indexOf(plot.chosen);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined || !rows.length) return;
    event.preventDefault();
    choose(rows[Math.max(0, Math.min(rows.length - 1, to))], true);
  }

  function search() {
    const wanted = find.value.trim().toLowerCase();
    let n = 0;
    items.forEach((one, i) => {
      one.hit = Boolean(wanted) && one.text.toLowerCase().includes(wanted);
      n += one.hit;
      list.children[i].hidden = one.hidden || (Boolean(wanted) && !one.hit);
    });
    fill(hits, wanted ? t("map_hits", { n }) : "");
    plot.paint();
  }
}
