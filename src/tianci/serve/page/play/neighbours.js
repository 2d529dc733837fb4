import { el } from "../dom.js";
import { bars, fixed } from "../parts.js";
import { sentence, spark } from "./tokens.js";

const MOST = 2000; // lines
const SHOWN = 20;
const FIRST = 64; // numbers of the vector that are drawn

export default {
  id: "neighbours",
  made: "similar",
  can: (model) => model.abilities.includes("embed"),
  fields: [
    { name: "text", label: "text", kind: "text", short: true },
    { name: "list", label: "list", kind: "list" },
  ],
  examples: [
    {
      lang: "zh", name: "怎么退钱？",
      values: { text: "怎么退钱？", list: "如何申请退款\n快递什么时候到\n可以开发票吗\n商品坏了怎么办\n优惠券怎么用\n能换个颜色吗" },
    },
    {
      lang: "en", name: "heavy rain",
      values: { text: "heavy rain", list: "a storm is coming\nthe sun shines\nI bought a new car\nbring an umbrella\ninterest rates rise\nthe river floods the town" },
    },
  ],
  request({ text, list }, model, t) {
    const lines = linesOf(list);
    if (!text.trim()) throw sentence(t("need_text"));
    if (!lines.length) throw sentence(t("need_list"));
    return { path: "/embed", body: { inputs: [text, ...lines], normalize: true, truncate: true, model: model.name } };
  },
  async ask({ api, request, info, signal }) {
    const { inputs, ...rest } = request.body;
    const vectors = [];
    for (let at = 0; at < inputs.length; at += info.limits.inputs) {
      vectors.push(...await api.post(request.path, { ...rest, inputs: inputs.slice(at, at + info.limits.inputs) }, { signal }));
    }
    return vectors;
  },
  show(root, [query, ...others], { t, request, values }) {
    const lines = request.body.inputs.slice(1);
    const near = others
      .map((one, n) => ({ name: lines[n], cosine: one.reduce((sum, x, i) => sum + x * query[i], 0) }))
      .sort((a, b) => b.cosine - a.cosine)
      .slice(0, SHOWN);
    root.append(
      el("h2", {}, t("cosine")),
      bars(near.map((one, n) => ({ name: one.name, share: Math.max(0, one.cosine), text: fixed(one.cosine, 3), best: n === 0 })), { class: "bars wide" }));
    if (lines.length < countLines(values.list)) root.append(el("p", { class: "small muted" }, t("skipped", { n: lines.length })));
    const told = t("vector", { n: Math.min(FIRST, query.length), width: query.length });
    root.append(el("p", { class: "small muted" }, told), spark(query.slice(0, FIRST), told));
  },
};

function countLines(list) {
  return list.split("\n").filter((one) => one.trim()).length;
}

function linesOf(list) {
  return list.split("\n").map((one) => one.trim()).filter(Boolean).slice(0, MOST);
}
