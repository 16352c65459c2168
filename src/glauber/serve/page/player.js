// A scrubber over the states of a recording: play, pause, step, speed. What is shown at a state is the caller's.

import { button, calm, el } from "./dom.js";
import { pace } from "./recording.js";

export class Player {
  // onshow(k) draws state k; `last` grows while a chain is running, and the newest state is then shown.
  constructor(onshow) {
    this.onshow = onshow;
    this.last = 0;
    this.k = 0;
    this.following = true;
    this.timer = null;
    this.play = button("Play", () => this.toggle(), { class: "quiet play" });
    this.range = el("input", {
      type: "range",
      min: 0,
      max: 0,
      value: 0,
      step: 1,
      "aria-label": "Step of the chain",
      oninput: () => this.seek(Number(this.range.value)),
    });
    this.speed = el(
      "select",
      { "aria-label": "Speed" },
      [0.25, 0.5, 1, 2, 4].map((speed) => el("option", { value: speed, selected: speed === 1 }, `${speed}×`)),
    );
    this.told = el("output", { class: "told" });
    this.node = el("div", { class: "player" }, this.play, this.range, this.told, this.speed);
    this.tell();
  }

  reset() {
    this.pause();
    this.last = this.k = 0;
    this.following = true;
    this.show(0);
  }

  // There are more states now.
  grow(last) {
    this.last = last;
    this.range.max = last;
    if (this.following) this.show(last);
    else this.tell();
  }

  seek(k) {
    this.pause();
    this.following = k === this.last;
    this.show(k);
  }

  show(k) {
    this.k = Math.max(0, Math.min(this.last, k));
    this.range.max = this.last;
    this.range.value = this.k;
    this.onshow(this.k);
    this.tell();
  }

  tell() {
    this.told.textContent = `step ${this.k} of ${this.last}`;
    this.range.setAttribute("aria-valuetext", this.told.textContent);
    this.play.textContent = this.timer === null ? "Play" : "Pause";
    this.play.disabled = this.last === 0;
  }

  toggle() {
    if (this.timer !== null) return this.pause();
    if (this.k >= this.last) this.show(0);
    this.following = false;
    return this.tick();
  }

  // With reduced motion a chain is shown in few still pictures.
  tick() {
    if (this.k >= this.last) return this.pause();
    const wait = calm() ? 1000 : pace(this.last, Number(this.speed.value));
    const stride = calm() ? Math.max(1, Math.ceil(this.last / 8)) : 1;
    this.timer = setTimeout(() => {
      this.show(this.k + stride);
      this.tick();
    }, wait);
    return this.tell();
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.following = this.k === this.last;
    this.tell();
  }
}
