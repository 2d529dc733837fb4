// A read-out shared by all pictures: point at one, and every legend shows the values of that step.
"use strict";
const data = JSON.parse(document.getElementById("readings").textContent);
const outputs = [...document.querySelectorAll("output[data-series]")].map((element) => ({
  element, rest: element.textContent, series: data.series[element.dataset.series],
}));
const add = (parent, kind) => {
  const element = document.createElement("i");
  element.className = kind;
  element.hidden = true;
  return parent.appendChild(element);
};
const plots = [...document.querySelectorAll(".plot")].map((element) => {
  const own = outputs.filter((o) => element.parentElement.contains(o.element));
  return {
    element, end: Number(element.dataset.end), hair: add(element, "hair"),
    dots: own.map((o) => [o, add(element, o.element.parentElement.classList.contains("held") ? "dot held" : "dot")]),
    where: add(element, "where"),
  };
});

function nearest(step) {
  let low = 0, high = data.steps.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (data.steps[middle] < step) low = middle + 1; else high = middle;
  }
  return low > 0 && step - data.steps[low - 1] < data.steps[low] - step ? low - 1 : low;
}

function show(index, pointed) {
  for (const o of outputs) o.element.textContent = index === null ? o.rest : o.series.text[index];
  for (const plot of plots) {
    plot.hair.hidden = index === null;
    plot.where.hidden = index === null || plot !== pointed;
    for (const [o, dot] of plot.dots) {
      dot.hidden = index === null || o.series.down[index] === null;
      if (dot.hidden) continue;
      dot.style.left = `${100 * data.steps[index] / plot.end}%`;
      dot.style.top = `${o.series.down[index]}%`;
    }
    if (index === null) continue;
    const share = data.steps[index] / plot.end;
    plot.hair.style.left = `${100 * share}%`;
    plot.where.textContent = data.where[index];
    const room = plot.element.offsetWidth - plot.where.offsetWidth;
    plot.where.style.left = `${Math.max(0, Math.min(room, share * plot.element.offsetWidth - plot.where.offsetWidth / 2))}px`;
  }
}

for (const plot of plots) {
  const element = plot.element;
  let at = data.steps.length - 1;
  const follow = (event) => {
    const box = element.getBoundingClientRect();
    at = nearest((event.clientX - box.left) / box.width * plot.end);
    show(at, plot);
  };
  element.addEventListener("pointermove", follow);
  element.addEventListener("pointerdown", follow);
  element.addEventListener("pointerleave", () => show(null));
  element.addEventListener("blur", () => show(null));
  element.tabIndex = 0;
  element.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
    if (!by) return;
    event.preventDefault();
    at = Math.max(0, Math.min(data.steps.length - 1, at + by));
    show(at, plot);
  });
}
