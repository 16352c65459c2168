// Fills side by side, with the scrubber over the chain that made them, and the law of a token that is clicked.

import { button, el, replace } from "./dom.js";
import { GIVEN } from "./recording.js";
import { Player } from "./player.js";
import { legend, TokenRow } from "./tokens.js";

export class Results {
  // onkeep(row), onrest(row): draw what is not pinned anew; onpick(row, site, span): a token was clicked.
  constructor({ onkeep, onrest, onpick }) {
    this.act = { onkeep, onrest, onpick };
    this.recording = null;
    this.pins = new Set();
    this.player = new Player((k) => this.draw(k));
    this.cards = el("div", { class: "cards" });
    this.stale = el("p", { class: "stale", hidden: true }, "These belong to an earlier version of your text.");
    this.node = el(
      "section",
      { class: "results", "aria-label": "Fills", hidden: true },
      legend(),
      this.player.node,
      this.stale,
      this.cards,
    );
    this.rows = [];
  }

  // A recording, how many of its states there are, which sites are pinned, and whether more states are to come.
  show(recording, upto, pins, running) {
    const other = this.recording?.start !== recording?.start;
    this.recording = recording;
    this.pins = new Set(pins.map(([row, site]) => `${row} ${site}`));
    this.node.hidden = recording === null;
    if (recording === null) return this.player.reset();
    if (other) this.begin(recording.start.tokens.length);
    this.running = running;
    this.pinned = pins;
    const ended = this.player.k === this.player.last || upto < this.player.last;
    this.player.following ||= ended;
    this.player.grow(upto);
    return this.buttons();
  }

  // Whether the text has been changed since.
  mark(stale) {
    this.stale.hidden = !stale;
  }

  begin(number) {
    this.rows = Array.from({ length: number }, (_, row) => this.card(row));
    replace(
      this.cards,
      this.rows.map(({ node }) => node),
    );
    this.player.pause();
    this.player.last = this.player.k = 0;
    this.player.following = true;
  }

  card(row) {
    const tokens = new TokenRow({ label: `Fill ${row + 1}`, onpick: (site, span) => this.act.onpick(row, site, span) });
    const keep = button("Keep", () => this.act.onkeep(row), { title: "This fill becomes your text" });
    const rest = button("Redraw the rest", () => this.act.onrest(row), {
      title: "All that is not pinned becomes a gap, and is filled",
    });
    const node = el("article", { class: "card" }, el("header", {}, el("h2", {}, `Fill ${row + 1}`), rest, keep), tokens.node);
    return { node, tokens, keep, rest };
  }

  buttons() {
    this.rows.forEach(({ keep, rest }, row) => {
      keep.disabled = this.running;
      rest.disabled = this.running;
      rest.hidden = !this.pinned.some(([pinned]) => pinned === row);
    });
  }

  get atEnd() {
    return this.player.k === this.player.last;
  }

  // The sites of a row as they stand in the end.
  sites(row) {
    return this.recording.rows(this.player.last)[row].map((site, k) => this.marked(row, site, k));
  }

  marked(row, site, k) {
    return { ...site, pinned: site.state !== GIVEN && this.pins.has(`${row} ${k}`) };
  }

  draw(k) {
    if (this.recording === null) return;
    this.recording
      .rows(k)
      .forEach((sites, row) => this.rows[row].tokens.draw(sites.map((site, j) => this.marked(row, site, j))));
  }
}
