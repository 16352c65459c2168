// Draws rows of tokens, coloured by their states. It knows nothing of where they come from.

import { el, replace } from "./dom.js";
import { DRAFT, DRAWN, GIVEN, NOISE, SETTLED } from "./recording.js";

export const LEGEND = [
  [GIVEN, "given", "written by you, or pinned"],
  [NOISE, "noise", "not drawn yet"],
  [DRAWN, "just drawn", "drawn in this very step"],
  [DRAFT, "draft", "drawn, and may be drawn again"],
  [SETTLED, "settled", "drawn, and not visited again"],
];

export function legend() {
  const entry = ([state, name, told]) =>
    el("li", { title: told }, el("span", { class: `token ${state}`, "aria-hidden": "true" }, "token"), ` ${name}`);
  return el("ul", { class: "legend", "aria-label": "What the colours say" }, LEGEND.map(entry));
}

// What a token shows: a line break is seen and made, an empty one leaves room to be clicked.
function shown(piece) {
  if (piece === "") return "·";
  return piece.replace(/\r/g, "").replace(/\n/g, "↵\n");
}

export class TokenRow {
  // onpick(site, element) is called for a token that is clicked, or chosen by Enter; a replay has none.
  constructor({ label, onpick = null }) {
    this.onpick = onpick;
    this.spans = [];
    this.node = el("div", { class: "tokens", role: "group", "aria-label": label });
    if (onpick) {
      this.node.addEventListener("click", (event) => this.pick(event.target.closest(".token")));
      this.node.addEventListener("keydown", (event) => this.key(event));
    }
  }

  draw(sites) {
    if (this.spans.length !== sites.length) {
      this.spans = sites.map(() => this.span());
      this.drawn = [];
      replace(this.node, this.spans);
      if (this.onpick && this.spans.length) this.spans[0].tabIndex = 0;
    }
    sites.forEach((site, k) => this.drawOne(site, k));
  }

  span() {
    return this.onpick ? el("span", { class: "token", role: "button", tabindex: "-1" }) : el("span", { class: "token" });
  }

  drawOne(site, k) {
    const { piece, state } = site,
      pinned = Boolean(site.pinned);
    const before = this.drawn[k];
    if (before && before.piece === piece && before.state === state && before.pinned === pinned) return;
    this.drawn[k] = { piece, state, pinned };
    this.spans[k].textContent = shown(piece);
    this.spans[k].className = `token ${state}${pinned ? " pinned" : ""}`;
  }

  pick(span) {
    const site = this.spans.indexOf(span);
    if (site < 0) return;
    this.focus(site);
    this.onpick(site, span);
  }

  focus(site) {
    for (const span of this.spans) span.tabIndex = -1;
    this.spans[site].tabIndex = 0;
    this.spans[site].focus();
  }

  key(event) {
    const at = this.spans.indexOf(document.activeElement);
    if (at < 0) return;
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.spans.length - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") this.pick(this.spans[at]);
    else if (to !== undefined) this.focus(Math.max(0, Math.min(this.spans.length - 1, to)));
    else return;
    event.preventDefault();
  }
}
