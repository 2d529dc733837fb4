// Labels of one text or of two, with the shares of the tokens; cosines where a model gives vectors.

import { el, fill } from "../dom.js";
import { bars, fixed, notice, percent, waiting } from "../parts.js";
import { legend, sentence, tokens } from "./tokens.js";

export const classify = {
  id: "classify",
  can: (model) => model.abilities.includes("predict") && model.task !== "pair",
  fields: [{ name: "text", label: "text", kind: "text" }],
  examples: [
    { lang: "zh", values: { text: "房间很干净，服务也很好，下次还会来。" } },
    { lang: "zh", values: { text: "房间又小又脏，早餐一般，但是前台态度很好。" } },
    { lang: "en", values: { text: "A warm, funny film that I will watch again." } },
    { lang: "en", values: { text: "The plot is thin, but the music is wonderful." } },
  ],
  request({ text }, model, t) {
    if (!text.trim()) throw sentence(t("need_text"));
    return { path: "/predict", body: { inputs: text, model: model.name } };
  },
  show: showLabels,
};

export const pair = {
  id: "pair",
  made: "pair",
  can: (model) => model.abilities.includes("similarity") || paired(model),
  fields: [
    { name: "first", label: "first_text", kind: "text", short: true },
    { name: "second", label: "second_text", kind: "text", short: true },
  ],
  examples: [
    { lang: "zh", name: "天气不错 / 天气很好", values: { first: "今天天气不错", second: "今天天气很好" } },
    { lang: "zh", name: "怎么退款 / 何时发货", values: { first: "怎么申请退款？", second: "什么时候发货？" } },
    { lang: "en", name: "A man plays a guitar / Someone makes music", values: { first: "A man plays a guitar.", second: "Someone is making music." } },
    { lang: "en", name: "It rains / The sun shines", values: { first: "It rains.", second: "The sun shines." } },
  ],
  request({ first, second }, model, t) {
    if (!first.trim() || !second.trim()) throw sentence(t("need_second"));
    if (paired(model)) return { path: "/predict", body: { inputs: [first, second], model: model.name } };
    return { path: "/similarity", body: { inputs: { source_sentence: first, sentences: [second] }, model: model.name } };
  },
  show(root, answer, use) {
    if (paired(use.model)) { showLabels(root, answer, use); return; }
    const [cosine] = answer;
    root.append(el("h2", {}, use.t("cosine")), el("p", { class: "big number" }, fixed(cosine, 3)),
      bars([{ name: use.t("cosine"), share: Math.max(0, cosine), text: fixed(cosine, 3), best: true }], { "aria-hidden": "true" }));
  },
};

function paired(model) {
  return model.task === "pair" || (model.task === "regress" && model.abilities.includes("predict"));
}

function showLabels(root, found, use) {
  const { t, model } = use;
  const reasons = el("div", { class: "stack reasons" });
  if (model.task === "regress") {
    root.append(el("h2", {}, t("number")), el("p", { class: "big number" }, fixed(found[0].score, 3)), reasons);
    if (model.abilities.includes("attribute")) explain(reasons, null, use);
    return;
  }
  const can = model.abilities.includes("attribute");
  // of two labels the threshold decides, and that answer is the one to explain
  const decided = model.threshold !== null && found.length === 2;
  const second = decided ? found.find((one) => one.label === model.labels[1]) : null;
  const answer = !decided ? found[0].label : model.labels[second?.score >= model.threshold ? 1 : 0];
  root.append(
    el("h2", {}, t("label")),
    bars(found.map((one) => ({
      name: one.label, share: one.score, text: percent(one.score), best: one.label === answer,
      label: can ? t("explain", { label: one.label }) : null,
      onclick: can ? () => explain(reasons, one.label, use) : null,
    }))));
  if (decided) {
    root.append(el("p", { class: "small muted" }, t("threshold", { value: fixed(model.threshold, 3) }), " ",
      el("strong", {}, answer)));
  }
  if (!can) return;
  root.append(el("p", { class: "small muted" }, t("explain_hint")), reasons);
  explain(reasons, answer, use);
}

async function explain(place, label, use) {
  const { api, t, model, request, signal } = use;
  const wanted = (place.dataset.wanted = label ?? "");
  fill(place, waiting(t("waiting")));
  try {
    const body = { inputs: request.body.inputs, model: model.name, ...(label === null ? {} : { label }) };
    const found = await api.post("/attribute", body, { signal });
    if (place.dataset.wanted === wanted) showShares(place, found, use);
  } catch (error) {
    if (error.name !== "AbortError" && place.dataset.wanted === wanted) fill(place, notice(error.message));
  }
}

function showShares(place, found, { t, model }) {
  const most = Math.max(1e-9, ...found.tokens.map((one) => Math.abs(one.share)));
  const sum = found.tokens.reduce((total, one) => total + one.share, 0);
  const told = {
    sum: signed(sum), label: found.label, baseline: fixed(found.baseline), value: fixed(found.value),
    blank: found.baseline_token,
  };
  const number = model.task === "regress";
  const rough = Math.abs(found.gap) > 0.05 * Math.abs(found.value - found.baseline) + 0.01;
  fill(place,
    el("h2", {}, number ? t("why_number") : t("why", { label: found.label })),
    tokens(found.tokens.map((one) => ({ ...one, amount: one.share / most, number: one.special ? "" : signed(one.share) })),
      { t, caption: t("tokens") }),
    legend(t("against_it"), t("for_it"), "minus", "plus"),
    el("p", { class: "small muted" }, t(number ? "shares_sum_number" : "shares_sum", told)),
    rough ? el("p", { class: "small" }, t("rough", { gap: signed(found.gap) })) : null);
}

function signed(value) {
  return `${value < 0 ? "" : "+"}${fixed(value)}`;
}
