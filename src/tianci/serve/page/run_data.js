// What a run's log says, as columns that grow; and the connection that feeds them without a gap.

const STREAMS = 3; // at once: a browser opens six connections to a server, for all its tabs
const SLOW = 3000,
  DONE = 10000; // ms between looks where there is no stream; at a finished run

const number = (value) => (typeof value === "number" ? value : NaN);
const table = (value) => (value && typeof value === "object" && !Array.isArray(value) ? value : {});
const LANGUAGE = ["masked", "causal", "span", "prefix"];

export class RunData {
  constructor(id) {
    this.id = id;
    this.clear();
  }

  clear() {
    this.lines = 0; // entries seen
    this.step = [];
    this.tokens = [];
    this.minutes = [];
    this.columns = { lr: [], gradient: [], tokens_per_second: [] };
    this.loss = Object.create(null); // by goal; names come from a file
    this.accuracy = Object.create(null);
    this.held = []; // {step, tokens, minutes, parts: {goal: {loss, accuracy}}}
    this.dev = []; // {step, ..., scores}
    this.events = []; // {kind, step, text, entry}
    this.facts = {};
    this.metric = "";
    this.ended = false;
  }

  get goals() {
    return [...new Set([...Object.keys(this.loss), ...this.held.flatMap((one) => Object.keys(one.parts))])];
  }

  // The goal that guesses tokens, or else the first.
  get goal() {
    return this.goals.find((one) => LANGUAGE.includes(one)) ?? this.goals[0] ?? "";
  }

  get floors() {
    return LANGUAGE.includes(this.goal)
      ? [
          ["unigram", number(this.facts.unigram_entropy)],
          ["bigram", number(this.facts.bigram_entropy)],
        ].filter(([, value]) => Number.isFinite(value))
      : [];
  }

  // "step", "tokens" or "minutes" of the step entries.
  x(name) {
    return this[name];
  }

  add(entries) {
    for (const entry of entries) this.#take(table(entry));
  }

  #take(entry) {
    this.lines += 1;
    const step = number(entry.step);
    if (entry.event === "step") {
      this.#step(entry, step);
      return;
    }
    const at = { step, tokens: number(entry.tokens), minutes: number(entry.seconds) / 60 };
    if (!Number.isFinite(at.minutes)) at.minutes = this.minutes.at(-1) ?? 0;
    if (!Number.isFinite(at.tokens)) at.tokens = this.tokens.at(-1) ?? 0;
    if (entry.event === "start" || entry.event === "resume") {
      this.ended = false;
      this.metric = String(entry.metric ?? this.metric);
    }
    if (entry.event === "end") this.ended = true;
    for (const name of ["unigram_entropy", "bigram_entropy", "parameters", "precision", "verdict", "lr", "warmup"]) {
      if (entry[name] !== undefined && entry[name] !== null) this.facts[name] = entry[name];
    }
    if (Object.keys(table(entry.held)).length && this.held.at(-1)?.step !== step)
      this.held.push({ ...at, parts: table(entry.held) });
    if (entry.event === "dev") this.dev.push({ ...at, scores: table(entry.scores) });
    this.events.push({ ...at, kind: String(entry.event ?? ""), entry });
  }

  #step(entry, step) {
    if (!Number.isFinite(step)) return;
    const n = this.step.length;
    this.step.push(step);
    this.tokens.push(number(entry.tokens));
    this.minutes.push(number(entry.seconds) / 60);
    for (const name of Object.keys(this.columns)) this.columns[name].push(number(entry[name]));
    const parts = table(entry.parts);
    for (const [into, from] of [
      [this.loss, Object.keys(parts).length ? parts : { loss: entry.loss }],
      [this.accuracy, table(entry.accuracy)],
    ]) {
      for (const goal of Object.keys(from)) into[goal] ??= Array(n).fill(NaN);
      for (const [goal, column] of Object.entries(into)) column.push(number(from[goal]));
    }
    if (!Number.isFinite(number(entry.loss)) && !this.events.some((one) => one.kind === "nan")) {
      this.events.push({ step, tokens: number(entry.tokens), minutes: number(entry.seconds) / 60, kind: "nan", entry });
    }
  }

  // The best held-out loss or dev score: {step, value, name}, or null.
  best(metric) {
    let found = null;
    for (const one of this.dev) {
      const value = number(one.scores[metric]);
      if (Number.isFinite(value) && !(found?.value >= value)) found = { ...one, value, name: metric };
    }
    if (this.dev.length) return found;
    for (const one of this.held) {
      const value = number(one.parts[this.goal]?.loss);
      if (Number.isFinite(value) && !(found?.value <= value)) found = { ...one, value, name: this.goal };
    }
    return found;
  }
}

// ---------------------------------------------------------------- the connection

let open = 0;

const wait = (ms, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        done();
      },
      { once: true },
    );
  });

// Until the tab is looked at.
function visible(signal) {
  if (!document.hidden) return Promise.resolve();
  return new Promise((done) => {
    const ended = new AbortController();
    const look = () => {
      if (!document.hidden || signal.aborted) {
        ended.abort();
        done();
      }
    };
    document.addEventListener("visibilitychange", look, { signal: ended.signal });
    signal.addEventListener("abort", look, { signal: ended.signal });
  });
}

// Feeds `data` until `signal` says stop. `changed()` after each piece of news; `told(state)`:
// "live", "reading", "broken", "gone". Each entry comes once: a cursor says where to go on, and a
// log that was cut back by a resume is read anew.
export async function follow(data, api, signal, changed, told) {
  let cursor = "",
    failures = 0;
  const base = `/runs/${encodeURIComponent(data.id)}`;
  while (!signal.aborted) {
    try {
      await visible(signal);
      const part = await api.get(`${base}/log?after=${cursor}`, { signal });
      if (part.reset) data.clear();
      data.add(part.entries);
      cursor = part.cursor;
      failures = 0;
      told(data.ended ? "done" : "live");
      if (part.reset || part.entries.length) changed();
      if (part.more) continue;
      if (data.ended || open >= STREAMS) await wait(data.ended ? DONE : SLOW, signal);
      else await stream();
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 404) {
        told("gone");
        await wait(DONE, signal);
        continue;
      }
      if (error.name !== "AbortError") {
        told("broken");
        failures += 1;
        await wait(Math.min(5000, 250 * 2 ** failures), signal);
      }
    }
  }

  async function stream() {
    const ended = new AbortController();
    const stop = () => {
      if (signal.aborted || document.hidden) ended.abort();
    };
    signal.addEventListener("abort", stop, { signal: ended.signal });
    document.addEventListener("visibilitychange", stop, { signal: ended.signal });
    open += 1;
    try {
      for await (const one of api.events(`${base}/stream`, { last: cursor, signal: ended.signal })) {
        if (one.event === "reset") data.clear();
        else data.add([one.data]);
        cursor = one.id ?? cursor;
        changed();
        if (data.ended) return;
      }
    } finally {
      open -= 1;
      ended.abort();
    }
  }
}
