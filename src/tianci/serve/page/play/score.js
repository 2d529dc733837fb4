import { el } from "../dom.js";
import { fixed } from "../parts.js";
import { legend, sentence, tokens } from "./tokens.js";

const WARM = 8; // nats of surprise that are as warm as it gets: one chance in 3,000

export default {
  id: "score",
  can: (model) => model.abilities.includes("score"),
  fields: [{ name: "text", label: "text", kind: "text" }],
  examples: [
    { lang: "zh", values: { text: "今天出门忘带伞了，结果被雨淋湿了。" } },
    { lang: "zh", values: { text: "今天出门网袋散了，结果被雨淋湿了。" } },
    { lang: "en", values: { text: "The cat sat on the mat." } },
    { lang: "en", values: { text: "The cat sat on the moon." } },
  ],
  request({ text }, model, t) {
    if (!text.trim()) throw sentence(t("need_text"));
    return { path: "/score", body: { inputs: text, model: model.name } };
  },
  async ask({ api, request, model, values, signal }) {
    const [found, [pieces]] = await Promise.all([
      api.post(request.path, request.body, { signal }),
      api.post("/tokenize", { inputs: values.text, model: model.name }, { signal }),
    ]);
    return { ...found, pieces: pieces.filter((one) => !one.special) };
  },
  show(root, { score, mean, token_scores: scores, tokens: names, pieces }, { t, model }) {
    const masked = model.abilities.includes("fill");
    const rows = names.map((name, n) => ({
      text: pieces[n]?.text ?? name, start: pieces[n]?.start ?? n, stop: pieces[n]?.stop ?? n, part: 0, special: false,
      amount: -Math.min(1, -scores[n] / WARM), number: fixed(scores[n]),
    }));
    root.append(
      el("h2", {}, t(masked ? "pseudo" : "log_likelihood")),
      el("p", {}, el("span", { class: "big number" }, fixed(score)), " ",
        el("span", { class: "muted" }, `${fixed(mean)} ${t("per_token")}`)),
      tokens(rows, { t, caption: t("tokens") }),
      legend(t("likely"), t("surprising"), null, "minus"));
  },
};
