// Draws the pictures of a state side by side, each pixel as it is.

import { el, replace } from "./dom.js";

export class ImageRow {
  constructor() {
    this.node = el("div", { class: "pictures" });
    this.shown = [];
  }

  draw(urls) {
    if (this.shown.length !== urls.length) {
      this.shown = urls.map((_, k) => el("img", { class: "pixels", alt: `Sample ${k + 1}` }));
      replace(this.node, this.shown);
    }
    urls.forEach((url, k) => {
      if (this.shown[k].getAttribute("src") !== url) this.shown[k].src = url;
    });
  }
}
