// Elements. Texts are always text nodes: nothing that a message contains can become HTML.

const SVG = "http://www.w3.org/2000/svg";

// h("a", {href, class, onclick, "aria-label"}, children...): children are nodes, texts, lists; null
// and false are left out.
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// What is drawn again while someone is on one of its links leaves them on it.
export function replace(element, ...children) {
  const at = [...element.querySelectorAll("a[href]")].indexOf(document.activeElement);
  const where = at < 0 ? "" : document.activeElement.getAttribute("href");
  element.replaceChildren();
  append(element, children);
  if (at >= 0) {
    const links = [...element.querySelectorAll("a[href]")];
    const same = (link) => link?.getAttribute("href") === where;
    (same(links[at]) ? links[at] : links.find(same))?.focus({ preventScroll: true });
  }
  return element;
}

let numbered = 0;
export function newId(prefix) {
  numbered += 1;
  return `${prefix}-${numbered}`;
}
