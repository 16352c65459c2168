// The panel: how the chain runs, each option with a plain sentence. What is left empty is the model's own.

import { button, el, replace } from "./dom.js";

const ORDERS = ["left-to-right", "right-to-left", "random", "strided", "segments"];

const FIELDS = [
  { name: "order", label: "Order", choices: ORDERS, told: "The direction of writing: which place is drawn after which." },
  {
    name: "sweeps",
    label: "Sweeps",
    min: 1,
    max: 64,
    step: 1,
    told: "How often each place is visited. With more than one the chain revises what it wrote.",
  },
  {
    name: "calls",
    label: "Calls",
    min: 1,
    max: 4096,
    step: 1,
    told: "At most so many network calls for a whole sample; it then chooses order and sweeps itself.",
    whole: true,
  },
  {
    name: "kernel",
    label: "Kernel",
    choices: ["heat-bath", "reversal"],
    told: "Heat bath forgets the token that stands there; reversal counts it as evidence.",
  },
  { name: "temperature", label: "Temperature", min: 0.05, max: 5, step: 0.05, told: "Below 1 safer, above 1 more varied." },
  {
    name: "top_p",
    label: "Top-p",
    min: 0.01,
    max: 1,
    step: 0.01,
    told: "Draw only from the likeliest tokens that together have this share.",
  },
  {
    name: "seed",
    label: "Seed",
    min: 0,
    max: 2 ** 53 - 1,
    step: 1,
    told: "The same seed gives the same result. Empty: a new one each time.",
  },
];

export class Panel {
  // name: of its tab; onchange(values) after each change; copies: {name: function}, the buttons of "Copy as".
  constructor(name, onchange, copies) {
    this.name = name;
    this.onchange = onchange;
    this.values = {};
    this.controls = {};
    const fields = FIELDS.map((field) => this.field(field));
    const copy = el(
      "div",
      { class: "copy" },
      el("h2", {}, "Copy as"),
      Object.entries(copies).map(([name, act]) => button(name, act)),
    );
    this.node = el(
      "details",
      { class: "panel", open: matchMedia("(min-width: 901px)").matches },
      el("summary", {}, "How the chain runs"),
      fields,
      copy,
    );
  }

  field({ name, label, choices, told, ...limits }) {
    const id = `${this.name}-${name}`;
    const own = { id, "aria-describedby": `${id}-told`, onchange: () => this.read(name) };
    const control = choices
      ? el(
          "select",
          own,
          el("option", { value: "" }, "the model's own"),
          choices.map((choice) => el("option", { value: choice }, choice)),
        )
      : el("input", {
          ...own,
          type: "number",
          min: limits.min,
          max: limits.max,
          step: limits.step === 1 ? 1 : "any",
          placeholder: name === "seed" ? "new" : "own",
        });
    this.controls[name] = control;
    return el("div", { class: "field" }, el("label", { for: id }, label, control), el("p", { id: `${id}-told` }, told));
  }

  read(name) {
    const control = this.controls[name];
    if (!control.checkValidity()) return control.reportValidity();
    const values = { ...this.values };
    delete values[name];
    if (control.value !== "") values[name] = control.tagName === "SELECT" ? control.value : Number(control.value);
    this.values = values;
    return this.onchange(values);
  }

  show(values) {
    this.values = { ...values };
    for (const [name, control] of Object.entries(this.controls)) control.value = values[name] ?? "";
  }

  // Calls are for whole samples; elsewhere the field is off, and says why.
  allow(whole) {
    for (const { name, told, whole: only } of FIELDS) {
      if (!only) continue;
      const field = this.controls[name].closest(".field");
      field.classList.toggle("off", !whole);
      this.controls[name].disabled = !whole;
      replace(
        field.querySelector("p"),
        whole ? told : "Only for whole samples: a gap takes one call for each place and sweep.",
      );
    }
  }

  // What goes into a request, with a seed in any case, so that it can be had again.
  request(whole) {
    const { calls, ...values } = this.values;
    const chosen = whole && calls !== undefined ? { ...without(values, ["order", "sweeps"]), calls } : values;
    return { ...chosen, seed: values.seed ?? Math.floor(Math.random() * 2 ** 31) };
  }
}

function without(values, names) {
  return Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name)));
}
