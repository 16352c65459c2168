// A recording of a chain: how it started, what each state changed, what came of it. It knows nothing of HTTP or of a page.
//
// start: {kind: "text", sites: ["given" | "gap"], tokens: [[...]], pieces: [[...]], ...} or {kind: "image", images: [...], ...}
// states: [{changes: [[row, site, token, piece, "noise" | "drawn" | "settled" | "given"], ...]} or {images: [...]}, ...]
// done: what the same request answers without a stream; null while the chain is at work.

export const GIVEN = "given",
  NOISE = "noise",
  DRAFT = "draft",
  DRAWN = "drawn",
  SETTLED = "settled";

export class Recording {
  constructor(start, states = [], done = null) {
    this.start = start;
    this.states = states;
    this.done = done;
    this.at = -1;
    this.kept = null;
  }

  static from(data) {
    return new Recording(data.start, data.states, data.done ?? null);
  }

  toJSON() {
    return { version: 1, start: this.start, states: this.states, done: this.done };
  }

  // What a stream brings: (event, data).
  add(event, data) {
    if (event === "state" && data.step === 0)
      this.start.images = data.images; // the start, which text has told already
    else if (event === "state") this.states.push(data);
    if (event === "done") {
      this.done = data;
      this.kept = null; // now it is known which sites are not visited again
    }
  }

  get last() {
    return this.states.length;
  }

  // The same with one more state after the first `upto`: a step by hand.
  extended(upto, state) {
    return new Recording(this.start, [...this.states.slice(0, upto), state], this.done);
  }

  images(k) {
    return (k === 0 ? this.start.images : this.states[k - 1].images) ?? [];
  }

  // Rows of sites {token, piece, state} after k states; the start is k = 0. Going on is cheap, going back starts anew.
  rows(k) {
    if (this.kept === null || k < this.at) this.rewind();
    for (const row of this.kept) for (const site of row) if (site.state === DRAWN) site.state = site.rests;
    while (this.at < k) this.apply(this.at++, this.at === k);
    return this.kept;
  }

  rewind() {
    this.kept = this.start.tokens.map((row, k) => row.map((token, site) => this.first(k, site, token)));
    this.at = 0;
    this.final = new Map();
    if (this.done !== null)
      this.states.forEach(({ changes }, k) => changes?.forEach(([row, site]) => this.final.set(`${row} ${site}`, k)));
  }

  first(row, site, token) {
    return { token, piece: this.start.pieces[row][site] ?? "·", state: this.start.sites[site] === "given" ? GIVEN : NOISE };
  }

  // `rests` is what a site becomes once it is no longer the one just drawn.
  apply(k, newest) {
    for (const [row, site, token, piece, told] of this.states[k].changes ?? []) {
      const final = told === SETTLED || this.final.get(`${row} ${site}`) === k;
      const open = told === NOISE ? NOISE : this.start.sweeps === 1 ? SETTLED : DRAFT;
      const rests = told === GIVEN ? GIVEN : final ? SETTLED : open;
      const drawn = newest && (rests === DRAFT || rests === SETTLED);
      Object.assign(this.kept[row][site], { token, piece: piece ?? "·", rests, state: drawn ? DRAWN : rests });
    }
  }
}

// How long a state is shown, in milliseconds, so that the whole takes a pleasant time at speed 1.
export function pace(states, speed) {
  return Math.min(400, Math.max(16, 6000 / Math.max(1, states))) / speed;
}
