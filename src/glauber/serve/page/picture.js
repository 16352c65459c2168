// The tab Picture: sample, paint a hole, fill it several times, accept one. `backend` is what answers: see api.js.

import { Canvas } from "./canvas.js";
import { asCurl, imagePython } from "./copy.js";
import { button, cost, el, markStep, replace, steps } from "./dom.js";
import { History } from "./history.js";
import { Panel } from "./panel.js";
import { Player } from "./player.js";
import { Recording } from "./recording.js";
import { Task } from "./task.js";

const EMPTY = { picture: null, hole: null };

export class Picture {
  // As Write; about(): what /v1/models says of the model.
  constructor({ backend, status, about, onsave, share }) {
    Object.assign(this, { backend, status, about, onsave });
    this.history = new History(EMPTY);
    this.recording = null;
    this.task = new Task(status, () => this.refresh());
    this.canvas = new Canvas(() => this.set({ ...this.doc, hole: Array.from(this.canvas.hole) }));
    this.player = new Player((k) => this.draw(k));
    this.panel = new Panel("picture", () => this.onsave(), {
      curl: () => this.copyCurl(),
      Python: () => this.copyPython(),
      Link: share,
    });
    this.layout();
  }

  layout() {
    this.class = el("select", { "aria-label": "Class", onchange: () => this.choose() });
    this.classes = el("label", {}, "Class", this.class);
    this.number = el("input", {
      type: "number",
      min: 1,
      max: 8,
      value: 4,
      required: true,
      "aria-label": "How many pictures",
      onchange: () => this.onsave(),
    });
    this.sample = button("Sample pictures", () => this.start(false));
    this.go = button("Fill the hole", () => this.start(true), { class: "primary" });
    this.stop = button("Stop", () => this.task.stop());
    this.brush = button("Brush", () => this.erase(false), { "aria-pressed": "true" });
    this.eraser = button("Eraser", () => this.erase(true), { "aria-pressed": "false" });
    this.size = el("input", {
      type: "range",
      min: 1,
      max: 14,
      value: 4,
      "aria-label": "Size of the brush",
      oninput: () => (this.canvas.size = Number(this.size.value)),
    });
    this.undo = button("Undo", () => this.step("undo"), { class: "quiet" });
    this.redo = button("Redo", () => this.step("redo"), { class: "quiet" });
    this.clear = button("Clear the hole", () => this.set({ ...this.doc, hole: null }), { class: "quiet" });
    this.file = el("input", {
      type: "file",
      accept: "image/*",
      hidden: true,
      "aria-label": "Mask",
      onchange: () => this.upload(),
    });
    const upload = button("Upload a mask", () => this.file.click(), {
      class: "quiet",
      title: "A picture, white where to fill in",
    });
    this.shelf = el("div", { class: "shelf" });
    this.out = el("section", { class: "results", "aria-label": "Pictures", hidden: true }, this.player.node, this.shelf);
    const choices = el(
      "div",
      { class: "choices" },
      el("div", {}, this.classes, el("label", {}, "Pictures", this.number), this.sample),
      el("div", {}, this.brush, this.eraser, el("label", {}, "Size", this.size)),
      el("div", {}, this.undo, this.redo, this.clear, upload, this.file),
      el("div", {}, this.go, this.stop),
    );
    this.steps = steps("Sample a picture", "Paint a hole into it", "Fill the hole, and accept one");
    const desk = el("div", { class: "sheet desk" }, this.canvas.node, choices);
    this.node = el("div", { class: "layout" }, el("div", {}, this.steps, desk, this.task.node, this.out), this.panel.node);
    document.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (
      !this.node.isConnected ||
      event.target.matches("input[type=number]") ||
      !(event.ctrlKey || event.metaKey) ||
      event.key.toLowerCase() !== "z"
    )
      return;
    event.preventDefault();
    this.step(event.shiftKey ? "redo" : "undo");
  }

  get doc() {
    return this.history.value;
  }

  save() {
    const { recording, filled } = this;
    return {
      doc: this.doc,
      number: this.number.value,
      class: this.wanted,
      options: this.panel.values,
      filled,
      recording: recording?.done ? recording.toJSON() : null,
    };
  }

  restore(saved, undoable) {
    this.number.value = saved.number ?? 4;
    this.wanted = saved.class;
    this.panel.show(saved.options ?? {});
    this.filled = saved.filled;
    const { picture, hole } = saved.doc;
    if (undoable) this.history.set({ picture, hole });
    else this.history.restart({ picture, hole });
    if (saved.recording) this.begin(Recording.from(saved.recording));
  }

  // What was to be restored made no sense.
  reset() {
    this.history.restart(EMPTY);
    this.recording = null;
    this.out.hidden = true;
    this.panel.show({});
  }

  // The model is known, or another one was chosen.
  open() {
    const {
      shape: [height, width],
      classes,
    } = this.about();
    if (this.canvas.paper.width !== width || this.canvas.paper.height !== height || !this.canvas.hole)
      this.canvas.shape(width, height);
    if ((this.doc.hole?.length ?? width * height) !== width * height) this.history.set(EMPTY);
    replace(
      this.class,
      el("option", { value: "" }, "any"),
      classes.map((name) => el("option", { value: name }, name)),
    );
    this.class.value = classes.includes(this.wanted) ? this.wanted : "";
    this.classes.hidden = !classes.length;
    this.size.max = Math.max(2, Math.round(width / 2));
    this.refresh();
  }

  set(doc) {
    this.history.set(doc);
    this.refresh();
  }

  step(way) {
    if (!this.task.running && this.history[way]()) this.refresh();
  }

  // It is kept, too, while the model is not there or has no such class.
  choose() {
    this.wanted = this.class.value;
    this.onsave();
  }

  erase(on) {
    this.canvas.erasing = on;
    this.brush.setAttribute("aria-pressed", String(!on));
    this.eraser.setAttribute("aria-pressed", String(on));
  }

  async upload() {
    const [file] = this.file.files;
    this.file.value = "";
    if (!file) return;
    try {
      await this.canvas.load(file);
      this.status.say(
        this.canvas.isEmpty ? "That mask has no white pixel, so there is no hole." : "The mask is painted into the picture.",
      );
    } catch {
      this.status.say("That file is no picture that this browser can read.");
    }
  }

  refresh() {
    const running = this.task.running,
      { picture, hole } = this.doc;
    if (this.canvas.hole) {
      this.canvas.show(picture);
      this.canvas.set(hole ?? new Uint8Array(this.canvas.hole.length));
    }
    const painted = Boolean(hole?.some((pixel) => pixel));
    this.sample.disabled = running;
    this.go.disabled = running || !picture || !painted;
    this.stop.hidden = !running;
    this.undo.disabled = running || !this.history.past.length;
    this.redo.disabled = running || !this.history.future.length;
    this.clear.disabled = !painted;
    for (const accept of this.shelf.querySelectorAll("button")) accept.disabled = running;
    this.panel.allow(!painted);
    const at = !picture ? 0 : !painted ? 1 : 2;
    markStep(this.steps, at);
    this.onsave();
  }

  request(fills) {
    const n = this.number.checkValidity() ? Number(this.number.value) : 4;
    const some = this.class.value ? { class: this.class.value } : {};
    const parts = fills ? { image: this.doc.picture, mask: this.canvas.mask() } : {};
    return { model: this.about().id, n, ...some, ...this.panel.request(!fills), ...parts };
  }

  // A state so often that a chain has some fifty of them.
  every({ n, calls, sweeps }) {
    const { length, sampling } = this.about();
    const updates = calls ?? ((sweeps ?? sampling.sweeps) * length) / sampling.block;
    return Math.ceil(updates / Math.min(48, Math.floor(256 / n)));
  }

  async start(fills) {
    if (!this.about()) return;
    const request = this.request(fills),
      run = fills ? "inpaint" : "sampleImages";
    let made = null;
    const take = (event, data) => {
      this.task.heard();
      if (event === "start") made = this.begin(new Recording(data), true);
      else made?.add(event, data);
      if (event === "state") this.player.grow(made.last);
    };
    const done = await this.task.run(
      fills ? "Filling" : "Sampling",
      (signal) => this.backend[run]({ ...request, every: this.every(request) }, take, signal),
      () => this.start(fills),
    );
    if (!done) return;
    this.filled = fills;
    this.begin(made);
    this.status.say(`${cost(request, "picture", done)} ${fills ? "Accept the one you like best." : "Choose one to paint on."}`);
    this.refresh();
  }

  // A recording on the shelf; its last state is what came of it.
  begin(recording, running = false) {
    this.recording = recording;
    this.out.hidden = false;
    const number = recording.start.rows;
    this.shown = Array.from({ length: number }, (_, k) => el("img", { class: "pixels", alt: `Picture ${k + 1}` }));
    const accept = (k) => button(this.filled ? "Accept" : "Paint on this", () => this.accept(k), { disabled: running });
    replace(
      this.shelf,
      this.shown.map((image, k) => el("figure", {}, image, accept(k))),
    );
    this.player.reset();
    this.player.grow(recording.last);
    return recording;
  }

  accept(k) {
    this.set({ picture: this.recording.done.images[k], hole: null });
    this.canvas.node.scrollIntoView({ block: "nearest" });
    this.status.say("Paint a hole where it shall be drawn anew.");
  }

  draw(k) {
    if (!this.recording) return;
    const ended = k === this.recording.last && this.recording.done;
    (ended ? this.recording.done.images : this.recording.images(k)).forEach((url, j) => {
      if (this.shown[j] && this.shown[j].getAttribute("src") !== url) this.shown[j].src = url;
    });
  }

  copyCurl() {
    const fills = !this.go.disabled;
    this.status.copy("The command", asCurl(location.origin, `/v1/images/${fills ? "inpaint" : "sample"}`, this.request(fills)));
  }

  copyPython() {
    const fills = !this.go.disabled,
      { image, mask, ...request } = this.request(fills);
    this.status.copy("The Python code", imagePython(request, fills));
  }
}
