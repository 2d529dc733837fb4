// Elements from script. Whatever a server, a model or a person said goes through here as text:
// nothing is ever parsed as HTML, and no attribute can carry a script.

const SVG = "http://www.w3.org/2000/svg";

// el("button", {class: "quiet", onclick: f, disabled: true, style: {width: "3em"}}, "text", node, ...)
// Functions become listeners, true an empty attribute; false, null and undefined leave it out.
// `style` goes through CSSOM (the content security policy forbids style attributes).
export function el(tag, attributes = {}, ...children) {
  return made(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return made(document.createElementNS(SVG, tag), attributes, children);
}

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      if (typeof value !== "function") throw new TypeError(`${name} must be a function`);
      node.addEventListener(name.slice(2), value);
    } else if (name === "style") {
      for (const [property, what] of Object.entries(value)) node.style.setProperty(property, what);
    } else if (name === "value" && "value" in node) {
      node.value = value;
    } else if (name === "href" && !/^(#|\/(?!\/))/.test(value)) {
      throw new TypeError("links of this page lead to this page");
    } else {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...flat(children));
  return node;
}

function flat(children) {
  return children
    .flat(Infinity)
    .filter((one) => one !== null && one !== undefined && one !== false)
    .map((one) => (one instanceof Node ? one : String(one)));
}

// Puts children into a node in place of what was there.
export function fill(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
}

// A design token ("ink", "series-1", ...) as a colour that a canvas understands.
export function colour(token) {
  const probe = el("span", { style: { color: `var(--${token})` }, hidden: true });
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

let last = 0;

// An id for labels and what they label.
export function identity(prefix = "id") {
  last += 1;
  return `${prefix}-${last}`;
}
