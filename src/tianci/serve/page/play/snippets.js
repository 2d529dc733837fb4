// The request just made, as curl and as Python with nothing but its standard library.

import { el, fill } from "../dom.js";

export function curl({ path, body }, origin, key) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const lines = [`curl ${body.stream ? "-N " : ""}${origin}${path}`, `-H 'Content-Type: application/json'`];
  if (key) lines.push(`-H "Authorization: Bearer $TIANCI_API_KEY"`);
  return [...lines, `-d ${quoted(JSON.stringify(body))}`].join(" \\\n  ");
}

export function python({ path, body }, origin, key) {
  const headers = [`"Content-Type": "application/json"`];
  if (key) headers.push(`"Authorization": "Bearer " + os.environ["TIANCI_API_KEY"]`);
  return [
    `import json${key ? ", os" : ""}, urllib.request`,
    "",
    `body = ${literal(body)}`,
    `headers = {${headers.join(", ")}}`,
    `request = urllib.request.Request("${origin}${path}", json.dumps(body).encode(), headers)`,
    "with urllib.request.urlopen(request) as answer:",
    body.stream
      ? '    for line in answer:\n        print(line.decode(), end="")'
      : "    print(json.load(answer))",
  ].join("\n");
}

// JSON's strings are Python's, except for halves of characters, which stay escaped in both.
function literal(value) {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}: ${literal(v)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}

export function snippets(request, { t, info }) {
  const shown = el("pre", { tabindex: "0", "aria-label": t("as_code") });
  const ways = { curl, Python: python };
  const buttons = Object.keys(ways).map((name) => el("button", {
    type: "button", class: "chip", "aria-pressed": "false", onclick: () => choose(name),
  }, name));
  const copy = el("button", { type: "button", class: "chip" }, t("copy"));
  const choose = (name) => {
    fill(shown, ways[name](request, location.origin, info.key_needed));
    for (const one of buttons) one.setAttribute("aria-pressed", String(one.textContent === name));
  };
  copy.onclick = async () => {
    try {
      await navigator.clipboard.writeText(shown.textContent);
      copy.textContent = t("copied");
    } catch { // without https only localhost may write there
      getSelection().selectAllChildren(shown);
      copy.textContent = t("select_it");
    }
    setTimeout(() => { copy.textContent = t("copy"); }, 2000);
  };
  choose("curl");
  return el("details", { class: "code" }, el("summary", {}, `${t("as_code")} curl / Python`),
    el("div", { class: "row" }, buttons, copy), shown);
}
