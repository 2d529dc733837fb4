// Line charts of our own: as many points as there are, thinned to what the screen can show, with a
// cursor that all charts of a view share, by pointer and by arrow keys.

import { el, fill, identity, svg } from "./dom.js";

const LEFT = 50,
  RIGHT = 12,
  TOP = 10,
  BOTTOM = 24;

// ---------------------------------------------------------------- numbers

export function compact(value) {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return "–";
  if (size >= 1e9) return `${trim(value / 1e9)}G`;
  if (size >= 1e6) return `${trim(value / 1e6)}M`;
  if (size >= 1e4) return `${trim(value / 1e3)}k`;
  if (size && size < 1e-3) return value.toExponential(1).replace(".0e", "e");
  return trim(value);
}

const trim = (value) => String(Number(value.toPrecision(3)));

export function precise(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size && size < 1e-3) return value.toExponential(2);
  return size >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
}

// The mean of the neighbours, `half` to each side; at the left end the window shrinks evenly, so that
// the steep start is not flattened (as in the report of a run).
export function smooth(values, half) {
  if (half < 1) return values;
  const n = values.length,
    total = new Float64Array(n + 1),
    count = new Int32Array(n + 1);
  for (let i = 0; i < n; i += 1) {
    const known = Number.isFinite(values[i]);
    total[i + 1] = total[i] + (known ? values[i] : 0);
    count[i + 1] = count[i] + (known ? 1 : 0);
  }
  return values.map((value, i) => {
    if (!Number.isFinite(value)) return NaN;
    const reach = Math.min(half, i),
      low = i - reach,
      high = Math.min(n, i + reach + 1);
    return (total[high] - total[low]) / (count[high] - count[low]);
  });
}

// The place of the entry nearest to x, in rising xs.
export function nearest(xs, x) {
  let low = 0,
    high = xs.length - 1;
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - xs[low - 1] <= xs[low] - x ? low - 1 : low;
}

function ticks(low, high, wanted) {
  const rough = (high - low) / wanted,
    power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((one) => one * power >= rough) * power;
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1)
    found.push(Number((n * step).toPrecision(12)));
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(low); power <= high; power += 1) {
    for (const one of high - low > 2.5 ? [1] : [1, 2, 5]) {
      const at = Math.log10(one) + power;
      if (at >= low - 1e-9 && at <= high + 1e-9) found.push(10 ** at);
    }
  }
  return found;
}

// ---------------------------------------------------------------- lines

// The `d` of a path; of each pixel column the lowest and the highest point, so that spikes survive.
function path(xs, ys, px, py) {
  const parts = [];
  let column = NaN,
    low = NaN,
    high = NaN,
    pen = false;
  const put = (x, y) => {
    parts.push(`${pen ? "L" : "M"}${x.toFixed(1)} ${py(y).toFixed(1)}`);
    pen = true;
  };
  const flush = () => {
    if (Number.isNaN(column)) return;
    put(column, low);
    if (high !== low) put(column, high);
    column = NaN;
  };
  const dense = xs.length > 1500;
  for (let i = 0; i < xs.length; i += 1) {
    const y = ys[i];
    if (!Number.isFinite(y) || !Number.isFinite(px(xs[i]))) {
      flush();
      pen = false;
      continue;
    }
    const x = dense ? Math.round(px(xs[i])) : px(xs[i]);
    if (x === column) {
      low = Math.min(low, y);
      high = Math.max(high, y);
    } else {
      flush();
      column = x;
      low = high = y;
    }
  }
  flush();
  return parts.join("");
}

// The range that shows the curve: single wild points may leave it.
function range(series, levels, zero) {
  const seen = [];
  for (const one of series) {
    const every = Math.max(1, Math.floor(one.y.length / 2000));
    const sample = [];
    for (let i = 0; i < one.y.length; i += every) if (Number.isFinite(one.y[i])) sample.push(one.y[i]);
    if (one.look === "raw") {
      sample.sort((a, b) => a - b);
      const cut = Math.floor(sample.length / 200);
      seen.push(...sample.slice(cut, cut + 1), ...sample.slice(-cut - 1, sample.length - cut));
    } else {
      seen.push(Math.min(...sample), Math.max(...sample));
    }
  }
  seen.push(...levels.map((level) => level.value));
  if (zero) seen.push(0);
  const finite = seen.filter(Number.isFinite);
  if (!finite.length) return [0, 1];
  let low = Math.min(...finite),
    high = Math.max(...finite);
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return [zero && low >= 0 ? 0 : low - room, high + room];
}

// ---------------------------------------------------------------- the chart

// Charts that share a cursor: pointing at one points at all.
export class Cursor {
  constructor() {
    this.charts = [];
  }

  point(x) {
    for (const chart of this.charts) chart.point(x);
  }
}

// draw({series, levels, marks, spots, log, zero, ends}):
//   series [{name, tone: 1..8, look: "line" | "raw" | "dots" | "even", x: rising, y, full}]
//   levels [{name, value, tone}] dashed lines across; marks [{x, kind, text}] lines down
//   spots  [{x, y, tone, star}] single points; log: logarithmic x; zero: y begins at 0
//   ends, range: [low, high] of x and of y where they are known
export class Chart {
  constructor({
    title,
    note = "",
    format = precise,
    axis = compact,
    x = precise,
    xName = "",
    tall = false,
    cursor,
    key = "",
  }) {
    this.format = format;
    this.axis = axis;
    this.x = x;
    this.xName = xName;
    this.cursor = cursor ?? new Cursor();
    this.cursor.charts.push(this);
    this.title = title;
    const name = identity("chart");
    this.picture = svg("svg", { "aria-hidden": "true" });
    this.line = el("div", { class: "at", hidden: true });
    this.read = el("div", { class: "reading", hidden: true });
    this.plot = el(
      "div",
      {
        class: tall ? "plot tall" : "plot",
        tabindex: "0",
        role: "slider",
        "aria-labelledby": name,
        "aria-valuemin": "0",
        "aria-valuemax": "0",
        "aria-valuenow": "0",
        "data-chart": key,
        onpointermove: (event) => this.#hover(event),
        onpointerdown: (event) => this.#hover(event),
        onpointerleave: () => this.cursor.point(null),
        onblur: () => this.cursor.point(null),
        onkeydown: (event) => this.#step(event),
      },
      this.picture,
      this.line,
      this.read,
    );
    this.head = el("h3", { id: name }, title || " ", note ? el("span", { class: "muted unit" }, ` ${note}`) : null);
    this.element = el("figure", { class: "chart card" }, this.head, this.plot);
    this.seen = new ResizeObserver(() => this.#paint());
    this.seen.observe(this.plot);
  }

  rename(title) {
    if (title === this.title) return;
    this.title = title;
    this.head.firstChild.replaceWith(title);
  }

  close() {
    this.seen.disconnect();
  }

  draw(model) {
    this.model = { series: [], levels: [], marks: [], spots: [], log: false, zero: false, ...model };
    const lead = this.model.series.filter((one) => one.look !== "raw" && one.look !== "even");
    const all = new Set();
    for (const one of lead) for (const x of one.x) all.add(x);
    this.stops = Float64Array.from(all).sort();
    this.#paint();
    this.#tell(this.at ?? null);
  }

  #paint() {
    if (!this.model) return;
    const { series, levels, marks, spots, log, zero, ends, range: fixed } = this.model;
    const width = this.plot.clientWidth,
      height = this.plot.clientHeight;
    if (!width || !height) return;
    let low = Infinity,
      high = -Infinity;
    for (const one of series) {
      for (const x of [one.x.find((v) => !log || v > 0), one.x.at(-1)]) {
        if (Number.isFinite(x)) {
          low = Math.min(low, x);
          high = Math.max(high, x);
        }
      }
    }
    if (ends) [low, high] = ends;
    if (!(low <= high)) [low, high] = [0, 1];
    if (!log && !ends) low = Math.min(0, low);
    if (log) [low, high] = [Math.log10(Math.max(low, 1e-9)), Math.log10(Math.max(high, 1e-9))];
    if (low === high) high = low + 1;
    const [bottom, top] = fixed ?? range(series, levels, zero);
    const px = (x) =>
      LEFT + (((log ? (x > 0 ? Math.log10(x) : NaN) : x) - low) / (high - low)) * (width - LEFT - RIGHT);
    const py = (y) =>
      TOP +
      ((top - Math.min(Math.max(y, bottom - (top - bottom)), top + (top - bottom))) / (top - bottom)) *
        (height - TOP - BOTTOM);
    this.px = px;
    this.inverse = (pixel) => {
      const value = low + ((pixel - LEFT) / (width - LEFT - RIGHT)) * (high - low);
      return log ? 10 ** value : value;
    };
    const clip = `${this.head.id}-clip`;
    const parts = [
      svg(
        "clipPath",
        { id: clip },
        svg("rect", { x: LEFT, y: TOP - 4, width: Math.max(0, width - LEFT), height: height - TOP - BOTTOM + 8 }),
      ),
    ];
    for (const y of ticks(bottom, top, height > 220 ? 5 : 3)) {
      parts.push(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: py(y), y2: py(y) }));
      parts.push(svg("text", { x: LEFT - 6, y: py(y) + 4, class: "end" }, this.axis(y)));
    }
    const stops = log ? logTicks(low, high) : ticks(low, high, width > 500 ? 7 : 4);
    for (const x of stops) {
      const at = px(x);
      parts.push(svg("text", { x: at, y: height - 7, class: at > width - 34 ? "end" : "middle" }, compact(x)));
    }
    const inside = [];
    for (const mark of marks) {
      const at = px(mark.x);
      if (Number.isFinite(at))
        inside.push(
          svg("line", {
            class: `mark ${mark.kind}`,
            x1: at,
            x2: at,
            y1: mark.kind === "save" ? height - BOTTOM - 6 : TOP,
            y2: height - BOTTOM,
          }),
        );
    }
    for (const level of levels) {
      const at = py(level.value);
      inside.push(svg("line", { class: `level c${level.tone ?? 0}`, x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
      inside.push(svg("text", { class: "end halo", x: width - RIGHT, y: at - 4 }, level.name));
    }
    for (const one of series) {
      inside.push(svg("path", { class: `curve ${one.look} c${one.tone}`, d: path(one.x, one.y, px, py) }));
      const few = one.look === "dots" ? one.x.length <= 400 : one.x.length === 1;
      if (few && one.look !== "raw") {
        for (let i = 0; i < one.x.length; i += 1) {
          if (Number.isFinite(one.y[i]) && Number.isFinite(px(one.x[i])))
            inside.push(svg("circle", { class: `dot c${one.tone}`, cx: px(one.x[i]), cy: py(one.y[i]), r: 3 }));
        }
      }
    }
    for (const spot of spots) {
      if (!Number.isFinite(spot.y) || !Number.isFinite(px(spot.x))) continue;
      inside.push(
        spot.star
          ? svg("path", { class: `star c${spot.tone}`, d: star(px(spot.x), py(spot.y)) })
          : svg("circle", { class: `spot c${spot.tone}`, cx: px(spot.x), cy: py(spot.y), r: 6 }),
      );
    }
    parts.push(svg("g", { "clip-path": `url(#${clip})` }, inside));
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    fill(this.picture, parts);
  }

  #hover(event) {
    if (!this.inverse) return;
    const box = this.plot.getBoundingClientRect();
    this.cursor.point(this.inverse(event.clientX - box.left));
  }

  #step(event) {
    const n = this.stops?.length ?? 0;
    if (!n) return;
    const now = this.at === null || this.at === undefined ? -1 : nearest(this.stops, this.at);
    const to = {
      ArrowRight: now + 1,
      ArrowUp: now + 1,
      ArrowLeft: now - 1,
      ArrowDown: now - 1,
      PageUp: now + Math.ceil(n / 10),
      PageDown: now - Math.ceil(n / 10),
      Home: 0,
      End: n - 1,
    }[event.key];
    if (event.key === "Escape") {
      this.cursor.point(null);
      return;
    }
    if (to === undefined) return;
    event.preventDefault();
    this.cursor.point(this.stops[Math.max(0, Math.min(n - 1, to))]);
  }

  // Shows the cursor at x, or takes it away.
  point(x) {
    this.at = x;
    this.#tell(x);
  }

  #tell(x) {
    const at = x === null || !this.stops?.length ? NaN : this.px?.(this.stops[nearest(this.stops, x)]);
    this.line.hidden = this.read.hidden = !Number.isFinite(at);
    this.plot.setAttribute("aria-valuemax", String(this.stops?.at(-1) ?? 0));
    this.plot.setAttribute("aria-valuemin", String(this.stops?.[0] ?? 0));
    if (this.line.hidden) {
      this.plot.setAttribute("aria-valuenow", String(this.stops?.at(-1) ?? 0));
      this.plot.setAttribute("aria-valuetext", this.#words(this.stops?.at(-1)));
      return;
    }
    const stop = this.stops[nearest(this.stops, x)],
      width = this.plot.clientWidth;
    this.line.style.left = `${at}px`;
    this.read.style.left = at < width / 2 ? `${at + 10}px` : "";
    this.read.style.right = at < width / 2 ? "" : `${width - at + 10}px`;
    const rows = this.#values(stop).map(({ one, value }) =>
      el(
        "div",
        {},
        el("span", { class: `swatch c${one.tone} ${one.look}` }),
        el("b", {}, this.format(value)),
        " ",
        one.name,
      ),
    );
    const marks = this.model.marks.filter((mark) => mark.text && Math.abs(this.px(mark.x) - at) < 4);
    fill(
      this.read,
      el("div", { class: "muted" }, `${this.xName} ${this.x(stop)}`),
      rows,
      marks.map((mark) => el("div", { class: `told ${mark.kind}` }, mark.text)),
    );
    this.plot.setAttribute("aria-valuenow", String(stop));
    this.plot.setAttribute("aria-valuetext", this.#words(stop));
  }

  #values(stop) {
    const found = [];
    for (const one of this.model.series) {
      if (one.look === "raw" || one.look === "even" || !one.x.length || stop > one.x.at(-1) || stop < one.x[0])
        continue;
      const place = nearest(one.x, stop);
      if (Number.isFinite(one.y[place])) found.push({ one, value: one.y[place] });
    }
    return found;
  }

  #words(stop) {
    if (stop === undefined) return this.title;
    const said = this.#values(stop).map(({ one, value }) => `${one.name} ${this.format(value)}`);
    return `${this.xName} ${this.x(stop)}: ${said.join(", ")}`;
  }
}

function star(x, y) {
  const points = [];
  for (let i = 0; i < 10; i += 1) {
    const r = i % 2 ? 3.4 : 8,
      turn = Math.PI * (i / 5 - 0.5);
    points.push(`${(x + r * Math.cos(turn)).toFixed(1)} ${(y + r * Math.sin(turn)).toFixed(1)}`);
  }
  return `M${points.join("L")}Z`;
}
