// The movable threshold: the counts at every stop are in the page, the rest follows from them.
"use strict";
{
  const sweep = JSON.parse(document.getElementById("sweep").textContent);
  const box = document.querySelector(".slider");
  const all = (what) => document.querySelectorAll(what);
  const share = (part, of) => (of ? part / of : null);
  const say = (value, digits) => (value === null ? "–" : value.toFixed(digits));

  const read = (stop) => {
    const yes = sweep.true[stop], wrong = sweep.false[stop];
    return {
      threshold: sweep.stops[stop],
      precision: share(yes, yes + wrong),
      recall: share(yes, sweep.positives),
      f1: share(2 * yes, yes + wrong + sweep.positives),
      accuracy: share(yes + sweep.negatives - wrong, sweep.positives + sweep.negatives),
      fall_out: share(wrong, sweep.negatives),
      confusion: [[sweep.negatives - wrong, wrong], [sweep.positives - yes, yes]],
    };
  };

  const place = { // where each pointer goes: x, and y where it is a point
    threshold: (r) => [r.threshold, null],
    histogram: (r) => [r.threshold, null],
    precision_recall: (r) => [r.recall, r.precision],
    roc: (r) => [r.fall_out, r.recall],
  };

  const show = (stop, input) => {
    const now = read(stop);
    for (const element of all("[data-read]")) {
      const key = element.dataset.read;
      element.textContent = say(now[key], key === "threshold" ? 2 : 3);
    }
    for (const element of all("[data-cell]")) {
      const [right, said] = [...element.dataset.cell].map(Number);
      const row = now.confusion[right], part = share(row[said], row[0] + row[1]) ?? 0;
      element.firstChild.textContent = row[said].toLocaleString("en");
      element.lastChild.textContent = `${Math.round(100 * part)}%`;
      element.style.setProperty("--heat", part);
    }
    for (const element of all("[data-now]")) {
      const [x, y] = place[element.dataset.now](now);
      const lies = element.tagName === "circle";
      element.style.display = x === null || (lies && y === null) ? "none" : "";
      const across = `${100 * x}%`;
      if (lies) {
        element.setAttribute("cx", across);
        element.setAttribute("cy", `${100 - 100 * y}%`);
      } else {
        element.setAttribute("x1", across);
        element.setAttribute("x2", across);
      }
    }
    input.setAttribute("aria-valuetext", `${say(now.threshold, 2)}: precision ` +
      `${say(now.precision, 3)}, recall ${say(now.recall, 3)}, F1 ${say(now.f1, 3)}`);
  };

  if (sweep && box) {
    const [input, button] = box.children;
    box.hidden = false;
    input.value = sweep.at; // a browser may remember where it was moved to before a reload
    input.addEventListener("input", () => show(Number(input.value), input));
    button.addEventListener("click", () => { input.value = sweep.at; show(sweep.at, input); });
    show(sweep.at, input);
  }
}
