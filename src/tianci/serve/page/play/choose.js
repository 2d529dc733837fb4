import { el } from "../dom.js";
import { bars, percent } from "../parts.js";
import { sentence } from "./tokens.js";

const lines = (text) => text.split("\n").map((one) => one.trim()).filter(Boolean);

export default {
  id: "choose",
  can: (model) => model.abilities.includes("choose"),
  fields: [
    { name: "context", label: "situation", kind: "text", short: true },
    { name: "question", label: "question_maybe", kind: "line" },
    { name: "choices", label: "choices", kind: "list" },
  ],
  examples: [
    { lang: "zh", name: "外面下雨了", values: { context: "外面下雨了。", question: "出门要带什么？", choices: "雨伞\n墨镜\n扇子" } },
    { lang: "en", name: "It rains", values: { context: "It rains.", question: "What do you take along?", choices: "an umbrella\nsunglasses\na fan" } },
  ],
  request({ context, question, choices }, model, t) {
    const given = lines(choices);
    if (!context.trim()) throw sentence(t("need_text"));
    if (given.length < 2) throw sentence(t("need_choices"));
    return { path: "/choose", body: { inputs: { context, question, choices: given }, model: model.name } };
  },
  show(root, found, { t, request }) {
    root.append(el("h2", {}, t("answer_is")), el("p", { class: "big" }, found.choice),
      bars(request.body.inputs.choices.map((name, n) => ({
        name, share: found.scores[n], text: percent(found.scores[n]), best: n === found.label,
      })), { class: "bars wide" }));
  },
};
