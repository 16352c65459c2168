// The law of one token given all others: the ten likeliest, with what can be done at its place.

import { button, el, percent, replace } from "./dom.js";

const UNHELD = /^$|\ufffd/; // a part of a character, or the end of a text

export class Law {
  // onredraw() and onpin() act at the place that is open; onclose() when it is left.
  constructor({ onredraw, onpin, onclose }) {
    this.title = el("h2", {});
    this.why = el("p", { class: "why" });
    this.list = el("ol", {});
    this.redraw = button("Redraw", onredraw, { class: "primary" });
    this.pin = button("Pin", onpin);
    this.onclose = onclose;
    const close = button("Close", () => this.close(), { class: "quiet" });
    this.node = el(
      "aside",
      { class: "law", role: "dialog", "aria-label": "The law of a token", hidden: true },
      el("header", {}, this.title, close),
      this.why,
      this.list,
      el("footer", {}, this.redraw, this.pin),
    );
    this.node.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  // Below the token that was clicked, within its card's width.
  open(anchor, site) {
    this.leave();
    this.anchor = anchor;
    anchor.classList.add("open");
    this.node.hidden = false;
    const box = anchor.getBoundingClientRect(),
      width = Math.min(320, innerWidth - 24);
    this.node.style.left = `${scrollX + Math.max(12, Math.min(box.left, innerWidth - width - 12))}px`;
    this.node.style.top = `${scrollY + box.bottom + 8}px`;
    this.show(site);
    replace(this.list, el("li", {}, "…"));
    this.redraw.focus({ preventScroll: true });
    this.node.scrollIntoView({ block: "nearest" });
  }

  show(site) {
    replace(this.title, visible(site.piece));
    this.pin.textContent = site.pinned ? "Unpin" : "Pin";
    const why =
      site.state === "given"
        ? "A given token stays as it is anyway."
        : UNHELD.test(site.piece)
          ? "It is no text by itself."
          : "";
    this.pin.disabled = why !== "";
    this.pin.title = why || "A pinned token stays as it is when the rest is drawn anew.";
    for (const item of this.list.children) item.classList.toggle("here", item.dataset.token === String(site.token));
  }

  fill(law, site) {
    this.why.textContent = "What could stand here, given all other tokens:";
    const most = Math.max(...law.map((entry) => entry.probability), 1e-9);
    replace(
      this.list,
      law.map((entry) => this.entry(entry, most)),
    );
    this.show(site);
    this.node.scrollIntoView({ block: "nearest" });
  }

  entry({ token, piece, probability }, most) {
    const bar = el("span", { class: "bar" });
    bar.style.width = `${(100 * probability) / most}%`;
    return el(
      "li",
      { "data-token": token },
      bar,
      el("span", { class: "piece" }, visible(piece)),
      el("span", { class: "chance" }, percent(probability)),
    );
  }

  fail(message) {
    this.why.textContent = message;
    replace(this.list);
  }

  get isOpen() {
    return !this.node.hidden;
  }

  leave() {
    this.anchor?.classList.remove("open");
  }

  close() {
    if (this.node.hidden) return;
    this.leave();
    this.node.hidden = true;
    this.anchor?.focus({ preventScroll: true });
    this.onclose();
  }
}

// Spaces and line breaks at the ends of a token can be seen.
function visible(piece) {
  if (piece === "") return ["(no text by itself)"];
  const inside = piece.trim() ? piece.replace(/^ | $/g, "") : "";
  const [before, after] = inside ? [piece.startsWith(" "), piece.endsWith(" ")] : [piece.includes(" "), false];
  const sign = (there) => (there ? [el("span", { class: "space" }, "␣")] : []);
  const marks = (inside || piece.trimStart() || piece.replaceAll(" ", ""))
    .replaceAll("\n", "↵")
    .replaceAll("\r", "")
    .replaceAll("\t", "⇥");
  return [...sign(before), marks, ...sign(after)];
}
