// Texts with labels out of a file that somebody chose: plain lines, TSV or JSON Lines.

export const MOST = 2000; // texts of a map
const LABELS = ["label", "labels", "class", "category", "tag", "gold", "标签", "类别"];
const TEXTS = ["text", "sentence", "review", "content", "question", "title", "text_a", "文本", "内容"];

// {columns: [names], rows: [[cells]]}; throws {line} for a line of JSON Lines that is no JSON.
export function readTable(name, content) {
  const lines = content.replace(/^\uFEFF/, "").split(/\r\n|\n|\r/);
  const full = lines.filter((line) => line.trim());
  if (/\.(jsonl|json|ndjson)$/i.test(name) || (full.slice(0, 5).every((line) => line.startsWith("{")) && full.length))
    return readJson(lines);
  const width = Math.max(1, ...full.slice(0, 200).map((line) => line.split("\t").length));
  if (width === 1) return { columns: ["text"], rows: full.map((line) => [line.trim()]) };
  const rows = full.map((line) => line.split("\t").map((cell) => cell.trim()));
  const headed = rows[0].some((cell) => [...LABELS, ...TEXTS].includes(cell.toLowerCase()));
  const columns = headed ? rows.shift() : Array.from({ length: width }, (_, i) => String(i + 1));
  return { columns, rows };
}

function readJson(lines) {
  const objects = [];
  lines.forEach((line, i) => {
    if (!line.trim()) return;
    try {
      objects.push(JSON.parse(line));
    } catch {
      throw Object.assign(new Error("not JSON"), { line: i + 1 });
    }
  });
  const tables = objects.map((one) => (one && typeof one === "object" && !Array.isArray(one) ? one : { text: one }));
  const columns = [...new Set(tables.slice(0, 200).flatMap(Object.keys))];
  const shown = (value) =>
    value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  return {
    columns,
    rows: tables.map((one) => columns.map((name) => shown(Object.hasOwn(one, name) ? one[name] : null))),
  };
}

// Which columns are probably meant: {text, label}; label is -1 where there is none.
export function guess({ columns, rows }) {
  const sample = rows.slice(0, 500);
  const named = (names) => columns.findIndex((one) => names.includes(one.toLowerCase()));
  const length = (i) => sample.reduce((sum, row) => sum + (row[i]?.length ?? 0), 0);
  const kinds = (i) => new Set(sample.map((row) => row[i])).size;
  let text = named(TEXTS);
  if (text < 0) text = columns.map((_, i) => i).reduce((best, i) => (length(i) > length(best) ? i : best), 0);
  let label = named(LABELS);
  if (label < 0 || label === text) {
    const few = columns
      .map((_, i) => i)
      .filter((i) => i !== text && kinds(i) > 1 && kinds(i) <= Math.max(2, Math.min(32, sample.length / 3)));
    label = few.sort((a, b) => kinds(a) - kinds(b))[0] ?? -1;
  }
  return { text, label };
}

// Texts and labels of the chosen columns: all, or evenly chosen ones (a file may be sorted by label).
export function pick({ rows }, text, label) {
  const full = rows.filter((row) => row[text]?.trim());
  const kept =
    full.length <= MOST ? full : Array.from({ length: MOST }, (_, i) => full[Math.floor((i * full.length) / MOST)]);
  return {
    all: full.length,
    items: kept.map((row) => ({ text: row[text], label: label < 0 ? "" : (row[label] ?? "") })),
  };
}
