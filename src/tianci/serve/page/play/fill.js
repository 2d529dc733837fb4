import { el } from "../dom.js";
import { bars, percent } from "../parts.js";
import { plain, sentence } from "./tokens.js";

export default {
  id: "fill",
  can: (model) => model.abilities.includes("fill"),
  fields: [
    {
      name: "text", label: "text", kind: "text",
      insert: (control, model, t, tell) => el("button", {
        type: "button", class: "quiet small",
        onclick: () => {
          control.setRangeText(model.mask, control.selectionStart, control.selectionEnd, "end");
          tell(control.value);
          control.focus();
        },
      }, t("insert_mask", { mask: model.mask })),
    },
    { name: "top", label: "top", kind: "number", min: 1, max: 50, step: 1, value: "8" },
  ],
  examples: [
    { lang: "zh", name: "今天天气＿错", values: (model) => ({ text: `今天天气${model.mask}错，我们去公园走走吧。` }) },
    { lang: "zh", name: "北京是中国的首＿", values: (model) => ({ text: `北京是中国的首${model.mask}，有很${model.mask}的历史。` }) },
    { lang: "en", name: "The capital of France is _", values: (model) => ({ text: `The capital of France is ${model.mask}.` }) },
    { lang: "en", name: "She opened the _", values: (model) => ({ text: `She opened the ${model.mask} and looked outside.` }) },
  ],

  request({ text, top }, model, t) {
    if (!text.includes(model.mask)) throw sentence(t("need_mask", { mask: model.mask }));
    return { path: "/fill", body: { inputs: text, top: Number(top) || 8, model: model.name } };
  },

  show(root, masks, { t, values, model, set, run }) {
    masks.forEach((candidates, n) => {
      const most = candidates[0]?.score ?? 1;
      root.append(
        masks.length > 1 ? el("h2", {}, t("gap", { n: n + 1 })) : el("h2", {}, t("candidates")),
        bars(candidates.map((one, rank) => ({
          name: plain(one.token).trim() || one.token, share: one.score / most, text: percent(one.score), best: rank === 0,
          label: t("put_in", { token: one.token, score: percent(one.score) }),
          onclick: () => {
            const text = put(values.text, model.mask, n, one.token);
            set("text", text);
            if (text.includes(model.mask)) run();
          },
        }))));
    });
  },
};

// The text with its n-th mask replaced; later pieces of a word join what stands before them.
export function put(text, mask, n, token) {
  const parts = text.split(mask);
  let before = parts.slice(0, n + 1).join(mask);
  if (token.startsWith("##")) before = before.trimEnd();
  let word = plain(token);
  if (/^\s/.test(word) && (before === "" || /\s$/.test(before))) word = word.trimStart();
  return before + word + parts.slice(n + 1).join(mask);
}
