// The text with its gaps: a plain text area, behind which the gaps are painted, and a list of the gaps with their lengths.

import { button, count, el, replace } from "./dom.js";
import { closeGap, escapeBrackets, findGaps, follow, LONGEST, makeGap, resizeGap } from "./gaps.js";

export class Editor {
  // onchange(doc, kind) with the new {text, was}; steps of one kind in a row are one for undo. onundo(), onredo().
  constructor({ onchange, onundo, onredo }) {
    this.onchange = onchange;
    this.doc = { text: "", was: [] };
    this.area = el("textarea", {
      spellcheck: "false",
      "aria-label": "Your text",
      placeholder: "Type or paste a text here.",
      oninput: () => this.typed(),
      onpaste: (event) => this.paste(event),
    });
    this.area.addEventListener("keydown", (event) => this.key(event, onundo, onredo));
    this.area.addEventListener("select", () => this.tell());
    document.addEventListener("selectionchange", () => this.tell());
    this.paint = el("div", { class: "paint", "aria-hidden": "true" });
    this.gap = button("Make a gap", () => this.makeGap(), { title: "Ctrl G" });
    this.undo = button("Undo", onundo, { class: "quiet", title: "Ctrl Z" });
    this.redo = button("Redo", onredo, { class: "quiet", title: "Ctrl Shift Z" });
    this.list = el("ul", { class: "gaps", "aria-label": "Gaps" });
    this.node = el("div", { class: "editor" }, this.paint, this.area);
  }

  show(doc) {
    this.doc = doc;
    if (this.area.value !== doc.text) this.area.value = doc.text;
    this.repaint();
    this.listGaps();
    this.tell();
  }

  // What is typed without a pause is one step for undo.
  typed() {
    const now = performance.now();
    if (!(now - this.typedAt < 1000)) this.stretch = `typing ${now}`;
    this.typedAt = now;
    this.onchange(follow(this.doc, this.area.value), this.stretch);
  }

  paste(event) {
    const pasted = event.clipboardData.getData("text/plain"),
      escaped = escapeBrackets(pasted);
    if (escaped === pasted) return;
    event.preventDefault();
    this.area.setRangeText(escaped, this.area.selectionStart, this.area.selectionEnd, "end");
    this.typed();
  }

  key(event, onundo, onredo) {
    const letter = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
    const act = { z: event.shiftKey ? onredo : onundo, y: onredo, g: () => this.makeGap() }[letter];
    if (!act) return;
    event.preventDefault();
    act();
  }

  makeGap() {
    const made = makeGap(this.doc, this.area.selectionStart, this.area.selectionEnd);
    this.onchange({ text: made.text, was: made.was });
    this.area.focus();
    this.area.setSelectionRange(made.caret, made.caret);
  }

  // The same text once more, each gap marked.
  repaint() {
    const { text } = this.doc;
    let last = 0;
    const parts = findGaps(text).flatMap((gap) => {
      const before = text.slice(last, gap.from);
      last = gap.to;
      return [before, el("mark", {}, text.slice(gap.from, gap.to))];
    });
    replace(this.paint, parts, `${text.slice(last)}\n`);
  }

  listGaps() {
    const gaps = findGaps(this.doc.text);
    if (this.list.children.length !== gaps.length)
      replace(
        this.list,
        gaps.map((_, k) => this.item(k)),
      );
    gaps.forEach((gap, k) => this.showItem(this.list.children[k], gap, this.doc.was[k]));
  }

  item(k) {
    const mark = (on) => this.paint.querySelectorAll("mark")[k]?.classList.toggle("chosen", on);
    const resize = (event) => {
      if (event.target.checkValidity() && event.target.value)
        this.onchange(resizeGap(this.doc, k, Number(event.target.value)), `gap ${k}`);
    };
    return el(
      "li",
      {
        onfocusin: () => mark(true),
        onfocusout: () => mark(false),
        onmouseenter: () => mark(true),
        onmouseleave: () => mark(false),
      },
      el("span", { class: "name" }, `Gap ${k + 1}`),
      el("input", { type: "range", min: 1, max: LONGEST, "aria-label": `Length of gap ${k + 1}, by slider`, oninput: resize }),
      el("input", {
        type: "number",
        min: 1,
        max: 99999,
        required: true,
        "aria-label": `Length of gap ${k + 1}`,
        oninput: resize,
      }),
      el("span", {}, ""),
      el("span", { class: "was" }),
      button("", () => this.onchange(closeGap(this.doc, k)), { class: "quiet" }),
    );
  }

  showItem(item, gap, was) {
    const [, range, number, unit, before, close] = item.children;
    range.value = Math.min(LONGEST, gap.size);
    if (Number(number.value) !== gap.size) number.value = gap.size;
    unit.textContent = count(gap.size, "token").replace(/^\S+ /, "");
    before.textContent = was ? `was “${was}”` : "";
    close.textContent = was ? "Put back" : "Remove";
  }

  tell() {
    const chosen = document.activeElement === this.area && this.area.selectionStart !== this.area.selectionEnd;
    this.gap.textContent = chosen ? "Make a gap of the selection" : "Make a gap";
  }
}
