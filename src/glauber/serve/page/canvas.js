// A picture with a hole that is painted by brush and eraser, in the picture's own pixels. By pointer, or by arrow keys and space.

import { el } from "./dom.js";

export class Canvas {
  // onpaint(): the hole was changed by a stroke that has ended.
  constructor(onpaint) {
    this.onpaint = onpaint;
    this.size = 4;
    this.erasing = false;
    this.picture = el("img", { alt: "The picture", class: "pixels", draggable: "false" });
    this.paper = el("canvas", { class: "hole" });
    this.pen = this.paper.getContext("2d", { willReadFrequently: true });
    this.node = el(
      "div",
      {
        class: "canvas",
        tabindex: "0",
        role: "application",
        "aria-label": "The picture: paint where it is to be filled in. Arrow keys move, space paints.",
      },
      this.picture,
      this.paper,
    );
    this.node.addEventListener("pointerdown", (event) => this.begin(event));
    this.node.addEventListener("pointermove", (event) => this.move(event));
    this.node.addEventListener("pointerup", () => this.end());
    this.node.addEventListener("pointercancel", () => this.end());
    this.node.addEventListener("keydown", (event) => this.key(event));
  }

  shape(width, height) {
    this.paper.width = width;
    this.paper.height = height;
    this.node.style.aspectRatio = `${width} / ${height}`;
    this.hole = new Uint8Array(width * height);
    this.cursor = [Math.floor(width / 2), Math.floor(height / 2)];
    this.draw();
  }

  show(url) {
    this.picture.hidden = !url;
    if (url && this.picture.getAttribute("src") !== url) this.picture.src = url;
  }

  set(hole) {
    this.hole = Uint8Array.from(hole);
    this.draw();
  }

  get isEmpty() {
    return !this.hole.some((pixel) => pixel);
  }

  at(event) {
    const box = this.node.getBoundingClientRect();
    return [
      ((event.clientX - box.left) / box.width) * this.paper.width,
      ((event.clientY - box.top) / box.height) * this.paper.height,
    ];
  }

  begin(event) {
    if (event.button) return;
    this.node.setPointerCapture(event.pointerId);
    this.last = this.at(event);
    this.stroke(this.last, this.last);
  }

  move(event) {
    if (!this.last) return;
    const now = this.at(event);
    this.stroke(this.last, now);
    this.last = now;
  }

  end() {
    if (!this.last) return;
    this.last = null;
    this.onpaint();
  }

  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step && event.key !== " ") return;
    event.preventDefault();
    if (step) {
      const limits = [this.paper.width - 1, this.paper.height - 1];
      this.cursor = this.cursor.map((place, axis) => Math.max(0, Math.min(limits[axis], place + step[axis])));
      this.draw(true);
    } else {
      const middle = this.cursor.map((place) => place + 0.5);
      this.stroke(middle, middle);
      this.onpaint();
    }
  }

  // A line of discs; a pixel is painted when its middle lies in one.
  stroke([x0, y0], [x1, y1]) {
    const steps = Math.max(1, Math.ceil(Math.hypot(x1 - x0, y1 - y0)));
    for (let k = 0; k <= steps; k++) this.disc(x0 + ((x1 - x0) * k) / steps, y0 + ((y1 - y0) * k) / steps);
    this.draw();
  }

  disc(x, y) {
    const { width, height } = this.paper,
      r = this.size / 2;
    for (let row = Math.max(0, Math.floor(y - r)); row < Math.min(height, y + r); row++) {
      for (let column = Math.max(0, Math.floor(x - r)); column < Math.min(width, x + r); column++) {
        if (Math.hypot(column + 0.5 - x, row + 0.5 - y) <= Math.max(r, 0.71))
          this.hole[row * width + column] = this.erasing ? 0 : 1;
      }
    }
  }

  draw(cursor = false) {
    const { width, height } = this.paper,
      pen = this.pen,
      shown = pen.createImageData(width, height);
    this.hole.forEach((painted, k) => shown.data.set(painted ? [242, 163, 36, 255] : [0, 0, 0, 0], 4 * k));
    if (cursor) shown.data.set([125, 182, 240, 255], 4 * (this.cursor[1] * width + this.cursor[0]));
    pen.putImageData(shown, 0, 0);
  }

  // White where to fill in, black elsewhere: what the server takes.
  mask() {
    const made = el("canvas", { width: this.paper.width, height: this.paper.height }),
      pen = made.getContext("2d");
    const shown = pen.createImageData(made.width, made.height);
    this.hole.forEach((painted, k) => shown.data.set(painted ? [255, 255, 255, 255] : [0, 0, 0, 255], 4 * k));
    pen.putImageData(shown, 0, 0);
    return made.toDataURL("image/png");
  }

  // From a file of any size; what is brighter than middle grey is painted.
  async load(file) {
    const picture = await createImageBitmap(file),
      { width, height } = this.paper;
    const pen = el("canvas", { width, height }).getContext("2d", { willReadFrequently: true });
    pen.drawImage(picture, 0, 0, width, height);
    const { data } = pen.getImageData(0, 0, width, height);
    this.set(
      Array.from(this.hole, (_, k) =>
        ((data[4 * k] + data[4 * k + 1] + data[4 * k + 2]) / 3) * (data[4 * k + 3] / 255) > 127 ? 1 : 0,
      ),
    );
    this.onpaint();
  }
}
