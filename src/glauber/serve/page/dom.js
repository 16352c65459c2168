// Elements made by code. All text goes in as text, so that nothing a model or a user writes can become a tag.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean") made.toggleAttribute(name, value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export function replace(parent, ...children) {
  parent.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
  return parent;
}

export function button(text, onclick, attributes = {}) {
  return el("button", { type: "button", onclick, ...attributes }, text);
}

// A number as people write it: 0.25 is 25 %, and what is almost nothing is said to be so.
export function percent(probability) {
  if (probability < 0.0005) return "< 0.1 %";
  const hundred = 100 * probability;
  return `${hundred < 10 ? hundred.toFixed(1) : Math.round(hundred)} %`;
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// What was made, how long it took and how to have it again.
export function cost({ n, seed }, noun, { seconds }) {
  return `${count(n, noun)} in ${seconds.toFixed(1)} s, seed ${seed}.`;
}
