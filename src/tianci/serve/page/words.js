// The words of the interface: key -> [English, Chinese]. Other modules bring their own by addWords.

const WORDS = {
  language: ["中文", "English"],
  language_long: ["中文：切换到中文界面", "English: switch to the English interface"],
  theme: ["Theme", "主题"],
  theme_auto: ["Auto", "自动"],
  theme_light: ["Light", "浅色"],
  theme_dark: ["Dark", "深色"],
  skip: ["Skip to the content", "跳到正文"],
  views: ["Views", "视图"],
  playground: ["Playground", "试用"],
  attention: ["Attention", "注意力"],
  runs: ["Runs", "训练"],
  report: ["Report", "报告"],
  map: ["Map", "地图"],
  routes: ["Routes", "接口"],
  key: ["Key", "密钥"],
  key_title: ["This server asks for a key", "此服务器需要密钥"],
  key_text: [
    "It is the one that TIANCI_API_KEY or --api-key gave the server. It is kept in this browser tab only.",
    "即启动服务器时 TIANCI_API_KEY 或 --api-key 给出的密钥。只保存在当前浏览器标签页中。",
  ],
  key_wrong: ["The server does not know this key.", "密钥不正确。"],
  key_use: ["Use this key", "使用"],
  key_forget: ["Forget the key", "清除密钥"],
  loading: ["Loading", "加载中"],
  models_loading: ["The server is loading its models", "服务器正在加载模型"],
  no_views: ["This server offers nothing for this page.", "此服务器没有可显示的内容。"],
  unknown_view: ["There is no such view here.", "没有这个视图。"],
  again: ["Try again", "重试"],
};

let language = "en";

export function addWords(more) {
  Object.assign(WORDS, more);
}

export function speak(code) {
  language = code;
}

// t("key", {n: 3}): the word in the language of the interface, with {n} replaced.
export function t(key, values = {}) {
  const found = WORDS[key]?.[language === "zh" ? 1 : 0] ?? key;
  return found.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}
