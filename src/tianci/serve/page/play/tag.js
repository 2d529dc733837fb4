import { el } from "../dom.js";
import { percent } from "../parts.js";
import { marked, sentence } from "./tokens.js";

export default {
  id: "tag",
  can: (model) => model.abilities.includes("tag"),
  fields: [{ name: "text", label: "text", kind: "text" }],
  examples: [
    { lang: "zh", values: { text: "李明在北京大学学习，毕业后去了上海的腾讯公司。" } },
    { lang: "zh", values: { text: "王芳昨天从广州飞往巴黎参加联合国会议。" } },
    { lang: "en", values: { text: "Kim Lee moved from Oslo to New York to work for Siemens." } },
  ],
  request({ text }, model, t) {
    if (!text.trim()) throw sentence(t("need_text"));
    return { path: "/tag", body: { inputs: text, model: model.name } };
  },
  show(root, { entities, text }, { t }) {
    const labels = [...new Set(entities.map((one) => one.label))].sort();
    const tone = (label) => `var(--series-${(labels.indexOf(label) % 8) + 1})`;
    root.append(
      el("h2", {}, t("in_context")),
      el("p", { class: "passage" }, marked(text, entities.map((one) => ({
        start: one.start, end: one.end,
        make: (part) => el("mark", { class: "entity", style: { "--tone": tone(one.label) } }, part, el("small", {}, one.label)),
      })))));
    if (!entities.length) { root.append(el("p", { class: "muted" }, t("no_entities"))); return; }
    root.append(el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", {}, t("entity")), el("th", {}, t("label")), el("th", { class: "number" }, t("probability")))),
      el("tbody", {}, entities.map((one) => el("tr", {}, el("td", {}, one.word), el("td", {}, one.label),
        el("td", { class: "number" }, percent(one.score))))))));
  },
};
