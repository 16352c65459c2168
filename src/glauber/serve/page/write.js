// The tab Write: a text with gaps, its fills side by side, and each token's law. `backend` is what answers: see api.js.

import { asCurl, asPython } from "./copy.js";
import { button, cost, el, markStep, steps } from "./dom.js";
import { Editor } from "./editor.js";
import { freeRecording } from "./free.js";
import { escapeAll, findGaps, textOf } from "./gaps.js";
import { History } from "./history.js";
import { Law } from "./law.js";
import { Panel } from "./panel.js";
import { GIVEN, Recording, stepByHand } from "./recording.js";
import { Results } from "./results.js";
import { Task } from "./task.js";

const FIRST = "She opened the [[2]] and saw [[8]]. Nobody had told her that the house was empty, and yet she knew.";
const EMPTY = { text: FIRST, was: [null, null], fills: null };

export class Write {
  // status: a Status; model(): the chosen one's name; length(model): the tokens of its rows; onsave(): something changed;
  // share(): a link to all of this.
  constructor({ backend, status, model, length, onsave, share }) {
    Object.assign(this, { backend, status, model, length, onsave });
    this.history = new History(EMPTY);
    this.recordings = new Map();
    this.task = new Task(status, () => this.refresh());
    this.editor = new Editor({
      onchange: (edit, kind) => this.edit(edit, kind),
      onundo: () => this.undo(),
      onredo: () => this.redo(),
    });
    this.results = new Results({
      onkeep: (row) => this.keep(row),
      onrest: (row) => this.rest(row),
      onpick: (...place) => this.pick(...place),
    });
    this.law = new Law({ onredraw: () => this.redraw(), onpin: () => this.pin(), onclose: () => (this.place = null) });
    this.panel = new Panel("write", () => this.refresh(), {
      curl: () => this.copyCurl(),
      Python: () => this.copyPython(),
      Link: share,
    });
    this.panel.allow(false);
    this.layout();
    this.refresh();
  }

  layout() {
    this.number = el("input", {
      type: "number",
      min: 1,
      max: 8,
      value: 2,
      required: true,
      "aria-label": "How many fills",
      onchange: () => this.onsave(),
    });
    this.go = button("Fill", () => (this.task.running ? this.task.stop() : this.fill()), {
      class: "primary",
      title: "Ctrl Enter",
    });
    this.look = button("Look at its tokens", () => this.tokenize(), { class: "quiet" });
    const { gap, undo, redo } = this.editor;
    const tools = el(
      "div",
      { class: "tools" },
      gap,
      undo,
      redo,
      this.look,
      el("span", { class: "room" }),
      el("label", {}, "Fills", this.number),
      this.go,
    );
    this.steps = steps("Select some words and make a gap", "Fill it", "Click a token: what else could stand there?");
    const sheet = el("div", { class: "sheet" }, this.editor.node, this.editor.list, tools);
    this.node = el(
      "div",
      { class: "layout" },
      el("div", {}, this.steps, sheet, this.task.node, this.results.node),
      this.panel.node,
      this.law.node,
    );
    document.addEventListener("keydown", (event) => this.key(event));
  }

  // Wherever the focus is, but for fields that undo by themselves.
  key(event) {
    if (
      event.defaultPrevented ||
      !this.node.isConnected ||
      !(event.ctrlKey || event.metaKey) ||
      event.target.matches("input[type=number]")
    )
      return;
    const act = {
      Enter: () => this.task.running || this.fill(),
      z: event.shiftKey ? () => this.redo() : () => this.undo(),
      Z: () => this.redo(),
      y: () => this.redo(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  get doc() {
    return this.history.value;
  }

  get recording() {
    return this.live ?? this.recordings.get(this.doc.fills?.id) ?? null;
  }

  // Everything on this tab, as plain data, and back.
  save() {
    const { fills } = this.doc,
      recording = fills && this.recordings.get(fills.id);
    return { doc: this.doc, number: this.number.value, options: this.panel.values, recording: recording?.toJSON() };
  }

  // With `undoable` what was there before can be had back.
  restore({ doc, number, options, recording }, undoable) {
    const fills = doc.fills && recording ? doc.fills : null;
    if (fills) this.recordings.set(fills.id, Recording.from(recording));
    this.number.value = number ?? 2;
    this.panel.show(options ?? {});
    const whole = { text: String(doc.text), was: doc.was ?? [], fills };
    if (undoable) this.history.set(whole);
    else this.history.restart(whole);
    this.refresh();
  }

  // What was to be restored made no sense.
  reset() {
    this.history.restart(EMPTY);
    this.panel.show({});
    this.refresh();
  }

  // The models are known.
  open() {
    this.refresh();
  }

  set(doc, kind = null) {
    this.history.set(doc, kind);
    this.refresh();
  }

  edit({ text, was }, kind) {
    this.set({ ...this.doc, text, was }, kind);
  }

  undo() {
    this.step(() => this.history.undo());
  }

  redo() {
    this.step(() => this.history.redo());
  }

  step(go) {
    if (this.task.running || !go()) return;
    this.law.close();
    this.refresh();
  }

  refresh() {
    const { text, was, fills } = this.doc,
      gaps = findGaps(text).length,
      running = this.task.running;
    if (this.law.isOpen && !this.place) this.law.close();
    this.editor.show({ text, was });
    this.editor.undo.disabled = running || !this.history.past.length;
    this.editor.redo.disabled = running || !this.history.future.length;
    this.look.hidden = gaps > 0 || !text;
    this.look.disabled = !this.model();
    this.go.textContent = running ? "Stop" : "Fill";
    this.go.disabled = !running && (gaps === 0 || !this.model());
    this.results.mark(!this.live && fills?.asked.text !== text);
    this.results.show(
      this.recording,
      this.live ? this.live.last : (fills?.upto ?? 0),
      this.live ? [] : (fills?.pins ?? []),
      running,
    );
    const at = fills || running ? 2 : gaps ? 1 : 0;
    markStep(this.steps, at);
    this.onsave();
  }

  request() {
    const n = this.number.checkValidity() ? Number(this.number.value) : 2;
    return { model: this.model(), text: this.doc.text, n, ...this.panel.request(false) };
  }

  async fill() {
    if (!this.model()) return undefined;
    if (!findGaps(this.doc.text).length) return this.status.say("There is no gap yet. Select some words and make one.");
    this.law.close();
    const request = this.request();
    const free = findGaps(request.text).some((gap) => gap.free);
    const work = (signal) => (free ? this.fillFree(request, signal) : this.fillSteps(request, signal));
    const done = await this.task.run("Filling", work, () => this.fill());
    const made = this.live;
    this.live = null;
    if (!done || !made) return this.refresh();
    this.shown(made, request);
    return this.status.say(`${cost(request, "fill", done)} Click a token, or keep one of them.`);
  }

  fillSteps(request, signal) {
    return this.backend.infill(request, (event, data) => this.take(event, data), signal);
  }

  // Where the model chooses lengths there are no steps.
  async fillFree(request, signal) {
    const answer = await this.backend.infillAtOnce(request, signal);
    this.live = await freeRecording(request.text, answer, (text) => this.backend.tokenize({ model: request.model, text }));
    return answer;
  }

  take(event, data) {
    this.task.heard();
    if (event === "start") this.live = new Recording({ ...data, sweeps: data.steps / this.length(data.model) });
    else this.live?.add(event, data);
    if (event === "start") this.refresh();
    else
      this.frame ??= requestAnimationFrame(() => {
        this.frame = null;
        if (this.live) this.results.player.grow(this.live.last);
      });
  }

  // A recording becomes what is shown, as a step that can be undone.
  shown(recording, asked) {
    const id = `${Date.now()} ${this.recordings.size}`;
    this.recordings.set(id, recording);
    this.set({ ...this.doc, fills: { id, upto: recording.last, pins: [], asked } });
  }

  async tokenize() {
    const text = this.doc.text.replaceAll("\\[[", "[[");
    const found = await this.task.run(
      "Looking",
      () => this.backend.tokenize({ model: this.model(), text }),
      () => this.tokenize(),
    );
    if (!found) return;
    const start = { kind: "text", sites: found.tokens.map(() => GIVEN), tokens: [found.tokens], pieces: [found.pieces] };
    this.shown(new Recording(start, [], { texts: [text] }), { text: this.doc.text, model: this.model() });
    this.status.say("Click a token to see what else could stand there.");
  }

  keep(row) {
    const { fills } = this.doc,
      recording = this.recording;
    const last = recording.states.slice(0, fills.upto).findLast(({ byHand }) => byHand?.row === row);
    const text =
      (last ? last.byHand.text : recording.done?.texts?.[row]) ??
      this.results
        .sites(row)
        .map((site) => site.piece)
        .join("");
    this.law.close();
    this.set({ text: escapeAll(text), was: [], fills: null });
    this.status.say(`Fill ${row + 1} is your text now. Undo brings the others back.`);
    this.editor.area.focus();
  }

  rest(row) {
    const free = (site) => site.state !== GIVEN && !site.pinned;
    const text = textOf(this.results.sites(row), free);
    if (!findGaps(text).length) return this.status.say("All tokens of this fill are pinned, so there is nothing left to draw.");
    this.set({ ...this.doc, text, was: [] });
    return this.fill();
  }

  async pick(row, site, span) {
    if (this.task.running) return this.status.say("The chain is still at work. Wait for it, or stop it.");
    if (!this.results.atEnd) this.results.player.seek(this.results.player.last);
    const place = (this.place = { row, site });
    this.law.open(span, this.results.sites(row)[site]);
    const answer = await this.ask({}, place);
    if (answer && this.place === place) this.law.fill(answer.law, this.results.sites(row)[site]);
    return undefined;
  }

  // The server's word on the place that is open.
  async ask(more, place) {
    const { model } = this.doc.fills.asked,
      most = this.length(model);
    const all = this.results.sites(place.row).map(({ token }) => token);
    const from = Math.max(0, Math.min(place.site - Math.floor(most / 2), all.length - most));
    const answer = { model, tokens: all.slice(from, from + most), site: place.site - from, ...more };
    try {
      return { from, whole: all.length <= most, ...(await this.backend.token(answer)) };
    } catch (trouble) {
      if (this.place === place) this.law.fail(trouble.message);
      return null;
    }
  }

  async redraw() {
    const place = this.place,
      { temperature, top_p } = this.panel.values;
    const answer =
      place && (await this.ask({ redraw: true, seed: Math.floor(Math.random() * 2 ** 31), temperature, top_p }, place));
    if (!answer || this.place !== place) return;
    const { fills } = this.doc,
      { row } = place;
    const changes = stepByHand(answer, place, this.results.sites(row));
    const byHand = { row, text: answer.whole ? answer.text : undefined };
    const changed = this.recording.extended(fills.upto, { byHand, changes });
    this.recordings.set(fills.id, changed);
    this.set({ ...this.doc, fills: { ...fills, upto: fills.upto + 1 } });
    this.law.fill(answer.law, this.results.sites(place.row)[place.site]);
  }

  pin() {
    const { row, site } = this.place,
      { fills } = this.doc;
    const others = fills.pins.filter((pin) => pin[0] !== row || pin[1] !== site);
    this.set({ ...this.doc, fills: { ...fills, pins: others.length < fills.pins.length ? others : [...others, [row, site]] } });
    this.law.show(this.results.sites(row)[site]);
  }

  // What made the fills that are shown, or what Fill would ask for.
  get asked() {
    const made = this.doc.fills?.asked;
    return made?.seed !== undefined && made.text === this.doc.text ? made : this.request();
  }

  copyCurl() {
    this.status.copy("The command", asCurl(location.origin, "/v1/infill", this.asked));
  }

  copyPython() {
    this.status.copy("The Python code", asPython(this.asked));
  }
}
