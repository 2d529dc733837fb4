import { el } from "../dom.js";
import { bars, percent } from "../parts.js";
import { marked, sentence } from "./tokens.js";

const ZH = "长城是中国古代的防御工程，始建于春秋战国时期，现存的城墙大多修建于明朝，总长超过两万公里。1987年，长城被列入世界文化遗产名录。";
const EN = "The Great Wall was built over many centuries. Most of the walls that stand today were built during the Ming dynasty. In 1987 it was added to the list of World Heritage sites.";

export default {
  id: "answer",
  can: (model) => model.abilities.includes("answer"),
  fields: [
    { name: "question", label: "question", kind: "line" },
    { name: "context", label: "context", kind: "text" },
  ],
  examples: [
    { lang: "zh", values: { question: "现存的城墙大多修建于什么朝代？", context: ZH } },
    { lang: "zh", values: { question: "长城哪一年被列入世界文化遗产？", context: ZH } },
    { lang: "en", values: { question: "When was it added to the list?", context: EN } },
  ],
  request({ question, context }, model, t) {
    if (!question.trim() || !context.trim()) throw sentence(t("need_second"));
    return { path: "/answer", body: { inputs: { question, context }, model: model.name } };
  },
  show(root, found, { t, values }) {
    const spans = [...(found.answer ? [found] : []), ...(found.others ?? [])];
    root.append(el("h2", {}, t("answer_is")), el("p", { class: "big" }, found.answer || t("no_answer")));
    const places = spans.map((one, rank) => ({
      start: one.start, end: one.end,
      make: (part) => el("mark", { class: rank === 0 && found.answer ? "found best" : "found" }, part),
    }));
    // the best one first: those that overlap it are left out of the picture, not of the list
    const free = places.filter((one, n) => places.slice(0, n).every((other) => one.end <= other.start || one.start >= other.end));
    const rows = spans.map((one, rank) => ({ name: one.answer, share: one.score, text: percent(one.score), best: rank === 0 && Boolean(found.answer) }));
    if (found.no_answer !== undefined) rows.push({ name: t("no_answer"), share: found.no_answer, text: percent(found.no_answer), best: !found.answer });
    root.append(el("h2", {}, t("in_context")), el("p", { class: "passage" }, marked(values.context, free)),
      el("h2", {}, t("candidates")), bars(rows, { class: "bars wide" }));
  },
};
