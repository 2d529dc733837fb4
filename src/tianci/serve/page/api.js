// Requests to the server this page came from: the key goes along, errors are one sentence.

const KEY = "tianci-key";

export class ApiError extends Error {
  // message: one sentence; status: 0 when there was no answer; kind: the server's error_type
  constructor(message, status = 0, kind = "") {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

// The key lives in this browser tab only.
export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

function headers(more = {}) {
  return key.get() ? { ...more, Authorization: `Bearer ${key.get()}` } : more;
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: headers(options.headers) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("no answer from the server; is it still running?");
  }
  if (answer.ok) return answer;
  let told = {};
  try {
    told = await answer.json();
  } catch {
    // not ours: a proxy's page, perhaps
  }
  const sentence = told.error?.message ?? told.error ?? `the server answered ${answer.status}`;
  const after = answer.headers.get("Retry-After");
  const more = after && answer.status === 429 ? ` (in ${after} s)` : "";
  if (answer.status === 401) dispatchEvent(new Event("tianci-key"));
  throw new ApiError(String(sentence) + more, answer.status, told.error_type ?? "");
}

const JSON_TYPE = { "Content-Type": "application/json" };

// What every view gets as context.api. All take {signal} and throw ApiError (or AbortError).
export const api = {
  async get(path, { signal } = {}) {
    return (await ask(path, { signal })).json();
  },

  async post(path, body, { signal } = {}) {
    const text = JSON.stringify(body);
    return (await ask(path, { method: "POST", body: text, signal, headers: JSON_TYPE })).json();
  },

  // Server-sent events by fetch (EventSource sends neither a body nor a key): yields
  // {event, data, id}, data parsed from JSON. Pass {last: id} to go on behind an event.
  async *events(path, { body, signal, last } = {}) {
    const more = last ? { "Last-Event-ID": String(last) } : {};
    const asked = body === undefined
      ? { signal, headers: more }
      : { method: "POST", body: JSON.stringify(body), signal, headers: { ...JSON_TYPE, ...more } };
    const answer = await ask(path, asked);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        rest += value.replaceAll("\r\n", "\n");
        let end;
        while ((end = rest.indexOf("\n\n")) >= 0) {
          const found = parsed(rest.slice(0, end));
          rest = rest.slice(end + 2);
          if (found) yield found;
        }
      }
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("the connection broke");
    } finally {
      reader.cancel().catch(() => {});
    }
  },
};

function parsed(block) {
  const found = { event: "message", data: null, id: null };
  const lines = [];
  for (const line of block.split("\n")) {
    if (line.startsWith(":")) continue; // a comment that keeps the connection open
    const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (name === "data") lines.push(value);
    else if (name === "event") found.event = value;
    else if (name === "id") found.id = value;
  }
  if (!lines.length) return null;
  found.data = JSON.parse(lines.join("\n"));
  return found;
}
