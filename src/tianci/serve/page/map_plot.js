// Points on a canvas: colour and shape by label, zoom, pan, and the nearest point's text.

import { colour, el, fill, svg } from "./dom.js";

const TONES = 8,
  SHAPES = ["circle", "square", "triangle", "diamond"];
export const LOOKS = TONES * SHAPES.length;

// The look of the n-th label: a tone 1..8 and a shape.
export function looks(n) {
  return { tone: (n % TONES) + 1, shape: SHAPES[Math.floor(n / TONES) % SHAPES.length] };
}

export function sign(look) {
  const shapes = {
    circle: svg("circle", { cx: 5, cy: 5, r: 4.5 }),
    square: svg("rect", { x: 1, y: 1, width: 8, height: 8 }),
    triangle: svg("path", { d: "M5 0.5L9.7 9H0.3Z" }),
    diamond: svg("path", { d: "M5 0L10 5L5 10L0 5Z" }),
  };
  return svg("svg", { viewBox: "0 0 10 10", class: `shape c${look.tone}`, "aria-hidden": "true" }, shapes[look.shape]);
}

export class Plot {
  // choose(i or -1): the point under the pointer changed
  constructor({ t, label, choose, signal }) {
    this.items = [];
    this.choose = choose;
    this.chosen = -1;
    this.view = { x: 0, y: 0, zoom: 1 };
    this.picture = el("canvas", { role: "img", "aria-label": label });
    this.read = el("div", { class: "reading", hidden: true });
    const button = (name, text, act) =>
      el("button", { type: "button", "aria-label": t(name), title: t(name), onclick: act }, text);
    this.element = el(
      "div",
      { class: "canvas" },
      this.picture,
      this.read,
      el(
        "div",
        { class: "zoom" },
        button("map_in", "+", () => this.#zoom(1.5)),
        button("map_out", "−", () => this.#zoom(1 / 1.5)),
        button("map_whole", "⤢", () => this.whole()),
      ),
    );
    this.#listen(signal);
    const seen = new ResizeObserver(() => this.paint());
    seen.observe(this.element);
    addEventListener("tianci-theme", () => this.#recolour(), { signal });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#recolour(), { signal });
    signal.addEventListener("abort", () => seen.disconnect());
    this.#recolour();
  }

  // items: [{text, label, look, hidden, hit}]
  set(items) {
    this.items = items;
    this.picture.dataset.points = String(items.length);
    this.paint();
  }

  // place: x and y of each item, one after the other
  move(place) {
    this.place = place;
    const box = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < place.length; i += 2) {
      box[0] = Math.min(box[0], place[i]);
      box[1] = Math.max(box[1], place[i]);
      box[2] = Math.min(box[2], place[i + 1]);
      box[3] = Math.max(box[3], place[i + 1]);
    }
    this.box = box;
    this.paint();
  }

  whole() {
    this.view = { x: 0, y: 0, zoom: 1 };
    this.paint();
  }

  #recolour() {
    this.colours = Array.from({ length: TONES + 1 }, (_, i) => colour(i ? `series-${i}` : "muted"));
    this.ink = colour("ink");
    this.ground = colour("surface");
    this.paint();
  }

  at(i) {
    const [left, right, low, high] = this.box,
      width = this.element.clientWidth,
      height = this.element.clientHeight;
    const scale = Math.min((width - 40) / (right - left || 1), (height - 40) / (high - low || 1)) * this.view.zoom;
    return [
      width / 2 + this.view.x + (this.place[2 * i] - (left + right) / 2) * scale,
      height / 2 + this.view.y - (this.place[2 * i + 1] - (low + high) / 2) * scale,
    ];
  }

  paint() {
    if (!this.place || this.waits) return;
    this.waits = requestAnimationFrame(() => {
      this.waits = 0;
      this.#paint();
    });
  }

  #paint() {
    const width = this.element.clientWidth,
      height = this.element.clientHeight,
      ratio = devicePixelRatio || 1;
    if (!width || this.items.length * 2 !== this.place.length) return;
    this.picture.width = width * ratio;
    this.picture.height = height * ratio;
    const pen = this.picture.getContext("2d");
    pen.scale(ratio, ratio);
    const size =
      Math.max(2.5, Math.min(5.5, 110 / Math.sqrt(this.items.length))) * Math.min(1.6, Math.sqrt(this.view.zoom));
    const any = this.items.some((one) => one.hit);
    pen.lineWidth = 0.8;
    this.items.forEach((one, i) => {
      if (one.hidden) return;
      const [x, y] = this.at(i);
      pen.globalAlpha = any && !one.hit ? 0.15 : 0.82;
      pen.fillStyle = this.colours[one.look.tone];
      pen.strokeStyle = this.ground;
      shape(pen, one.look.shape, x, y, size);
      pen.fill();
      pen.stroke();
    });
    pen.globalAlpha = 1;
    if (this.chosen >= 0 && this.items[this.chosen]) {
      const [x, y] = this.at(this.chosen);
      pen.strokeStyle = this.ink;
      pen.lineWidth = 2;
      shape(pen, "circle", x, y, size + 4);
      pen.stroke();
      this.read.style.left = x < width / 2 ? `${x + 14}px` : "";
      this.read.style.right = x < width / 2 ? "" : `${width - x + 14}px`;
      this.read.style.top = `${Math.max(4, Math.min(height - 90, y - 20))}px`;
    }
  }

  // Marks a point and shows its text; -1 for none.
  point(i) {
    this.chosen = i;
    this.read.hidden = i < 0;
    const one = this.items[i];
    if (one) {
      const text = one.text.length > 300 ? `${one.text.slice(0, 300)} …` : one.text;
      fill(this.read, one.label ? el("div", {}, el("b", {}, one.label)) : null, text);
    }
    this.paint();
  }

  #nearest(x, y) {
    let best = -1,
      least = 14 ** 2;
    this.items.forEach((one, i) => {
      if (one.hidden) return;
      const [a, b] = this.at(i),
        far = (a - x) ** 2 + (b - y) ** 2;
      if (far < least) {
        least = far;
        best = i;
      }
    });
    return best;
  }

  #zoom(factor, x = this.element.clientWidth / 2, y = this.element.clientHeight / 2) {
    const zoom = Math.max(0.5, Math.min(60, this.view.zoom * factor)),
      by = zoom / this.view.zoom;
    const cx = x - this.element.clientWidth / 2,
      cy = y - this.element.clientHeight / 2;
    this.view = { zoom, x: cx - (cx - this.view.x) * by, y: cy - (cy - this.view.y) * by };
    this.paint();
  }

  #listen(signal) {
    const held = new Map(); // pointers that are down
    const where = (event) => {
      const box = this.picture.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    this.picture.addEventListener(
      "pointerdown",
      (event) => {
        held.set(event.pointerId, where(event));
        this.picture.setPointerCapture(event.pointerId);
        this.#look(where(event));
      },
      { signal },
    );
    this.picture.addEventListener(
      "pointermove",
      (event) => {
        const now = where(event),
          before = held.get(event.pointerId);
        if (!before) {
          this.#look(now);
          return;
        }
        const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
        if (other)
          this.#zoom(
            Math.hypot(now[0] - other[0], now[1] - other[1]) /
              (Math.hypot(before[0] - other[0], before[1] - other[1]) || 1),
            other[0],
            other[1],
          );
        else {
          this.view.x += now[0] - before[0];
          this.view.y += now[1] - before[1];
          this.paint();
        }
        held.set(event.pointerId, now);
      },
      { signal },
    );
    for (const name of ["pointerup", "pointercancel"])
      this.picture.addEventListener(name, (event) => held.delete(event.pointerId), { signal });
    this.picture.addEventListener(
      "pointerleave",
      () => {
        if (!held.size) this.choose(-1);
      },
      { signal },
    );
    this.picture.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.#zoom(Math.exp(-event.deltaY / 400), ...where(event));
      },
      { signal, passive: false },
    );
  }

  #look([x, y]) {
    if (!this.place) return;
    const found = this.#nearest(x, y);
    if (found !== this.chosen) this.choose(found);
  }
}

function shape(pen, kind, x, y, r) {
  pen.beginPath();
  if (kind === "circle") pen.arc(x, y, r, 0, 2 * Math.PI);
  else if (kind === "square") pen.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r);
  else if (kind === "triangle") {
    pen.moveTo(x, y - 1.2 * r);
    pen.lineTo(x + 1.1 * r, y + 0.8 * r);
    pen.lineTo(x - 1.1 * r, y + 0.8 * r);
    pen.closePath();
  } else {
    pen.moveTo(x, y - 1.25 * r);
    pen.lineTo(x + 1.25 * r, y);
    pen.lineTo(x, y + 1.25 * r);
    pen.lineTo(x - 1.25 * r, y);
    pen.closePath();
  }
}
