// One piece of work at a time: what it is about, that it takes long, that it failed and how to go on.

import { el } from "./dom.js";

const SLOW = 3000; // milliseconds without a word after which it is said that the page still waits

export class Task {
  constructor(status, onchange) {
    this.status = status;
    this.onchange = onchange;
    this.control = null;
    this.heardAt = 0;
    this.node = status.node ?? el("div");
  }

  get running() {
    return this.control !== null;
  }

  // The model has said something.
  heard() {
    this.heardAt = performance.now();
  }

  stop() {
    this.control?.abort();
  }

  // What `work(signal)` gives; null where it failed or was stopped, which is said, with `again` on a button.
  async run(name, work, again) {
    if (this.running) return null;
    const began = (this.heardAt = performance.now());
    const tick = setInterval(() => {
      const now = performance.now(),
        so = `${name} … ${Math.round((now - began) / 1000)} s`;
      const slow = now - this.heardAt > SLOW;
      this.status.say(slow ? `${so} so far. The model is slow, or busy with others; you can stop it.` : so);
    }, 1000);
    this.control = new AbortController();
    this.status.say(`${name} …`);
    this.onchange();
    try {
      return await work(this.control.signal);
    } catch (trouble) {
      this.status.fail(trouble, again);
      return null;
    } finally {
      clearInterval(tick);
      this.control = null;
      this.onchange();
    }
  }
}
