import { el, fill } from "../dom.js";
import { ApiError } from "../api.js";
import { sentence } from "./tokens.js";

const OPTIONS = ["max_new_tokens", "temperature", "top_p", "top_k", "beams", "seed"];

export default {
  id: "generate",
  verb: "write",
  stops: true,
  can: (model) => model.abilities.includes("generate"),
  fields: [
    { name: "text", label: "text", kind: "text" },
    { name: "max_new_tokens", label: "max_new_tokens", kind: "number", min: 1, step: 1 },
    { name: "temperature", label: "temperature", kind: "number", min: 0, max: 100, step: 0.1 },
    { name: "top_p", label: "top_p", kind: "number", min: 0.01, max: 1, step: 0.01 },
    { name: "top_k", label: "top_k", kind: "number", min: 0, step: 1 },
    { name: "beams", label: "beams", kind: "number", min: 1, max: 16, step: 1 },
    { name: "seed", label: "seed", kind: "number", min: 0, step: 1 },
  ],
  examples: [
    { lang: "zh", values: { text: "从前有一座山，山上" } },
    { lang: "zh", values: { text: "今天天气不错，" } },
    { lang: "en", values: { text: "Once upon a time" } },
  ],
  request(values, model, t, info) {
    if (!values.text.trim()) throw sentence(t("need_text"));
    const body = { inputs: values.text, stream: true, model: model.name };
    for (const name of OPTIONS) {
      if (values[name] !== "" && values[name] !== undefined) body[name] = Number(values[name]);
    }
    if (body.max_new_tokens) body.max_new_tokens = Math.min(body.max_new_tokens, info.limits.new_tokens);
    return { path: "/generate", body };
  },
  // Shows what comes as it comes; stopping keeps what there is.
  async ask({ api, request, result, signal, values, model }) {
    const begun = performance.now();
    const said = el("span", { class: "written" });
    let tokens = 0;
    let text = "";
    const state = () => ({ text, tokens, seconds: (performance.now() - begun) / 1000 });
    fill(result, el("p", { class: "passage" }, before(model, values), said, el("span", { class: "caret", "aria-hidden": "true" })));
    try {
      for await (const one of api.events(request.path, { body: request.body, signal })) {
        if (one.event === "error") throw new ApiError(one.data.error, 424);
        text = one.data.text;
        tokens = one.data.ids?.length ?? tokens + 1;
        said.textContent = text;
        if (one.event === "done") break;
      }
    } catch (error) {
      if (error.name !== "AbortError" || !text) throw error;
    }
    return state();
  },
  show(root, { text, tokens, seconds }, { t, values, model }) {
    root.append(
      el("p", { class: "passage" }, before(model, values), el("span", { class: "written" }, text)),
      el("p", { class: "small muted" }, t("seconds", { tokens, seconds: seconds.toFixed(1) })));
  },
};

// A continuation stands behind its text; a title or a translation for itself.
function before(model, values) {
  return model.continues ? values.text : "";
}
