// The page: its tabs, the model, what is kept and sent.

import { Api } from "./api.js";
import { button, el, replace } from "./dom.js";
import { Picture } from "./picture.js";
import { Status } from "./status.js";
import { fromLink, keep, kept, toLink } from "./store.js";
import { Write } from "./write.js";

const TABS = { write: { name: "Write", kind: "text" }, picture: { name: "Picture", kind: "image" } };

class App {
  constructor(root, backend) {
    this.backend = backend;
    this.models = [];
    this.chosen = {};
    this.opened = { write: null, picture: null };
    const shared = { backend, onsave: () => this.save(), share: () => this.share() };
    const status = () => new Status((key) => (backend.key = key));
    this.tabs = {
      write: new Write({
        ...shared,
        status: status(),
        model: () => this.chosen.text,
        length: (model) => this.named(model)?.length ?? Infinity,
      }),
      picture: new Picture({ ...shared, status: status(), about: () => this.named(this.chosen.image) }),
    };
    this.select = el("select", { id: "model", onchange: () => this.choose(this.select.value) });
    this.model = el("label", { class: "model" }, "Model", this.select);
    this.buttons = Object.fromEntries(
      Object.entries(TABS).map(([tab, { name }]) => [
        tab,
        button(name, () => this.open(tab), { role: "tab", id: `tab-${tab}` }),
      ]),
    );
    const bar = el("nav", { class: "tabs", role: "tablist", "aria-label": "What to make" }, Object.values(this.buttons));
    bar.addEventListener("keydown", (event) => this.arrow(event));
    this.body = el("div", { role: "tabpanel", id: "panel" });
    replace(root, el("header", { class: "top" }, el("h1", { class: "mark" }, "glauber"), bar, this.model), this.body);
  }

  named(model) {
    return this.models.find(({ id }) => id === model);
  }

  async begin() {
    await this.restore();
    this.open(this.tab ?? "write");
    await this.load();
    addEventListener("pagehide", () => this.keepNow());
    addEventListener("hashchange", async () => {
      await this.restore();
      this.open(this.tab);
    });
  }

  // A link wins over what was kept; what it replaces can be had back by undo.
  async restore() {
    const old = this.tab ? null : kept();
    if (old) this.take(old, false);
    const sent = await this.linked();
    if (sent) this.take(sent, true);
    this.ready = true;
  }

  // What was kept by another version, or written by hand into a link, may be anything.
  take(found, undoable) {
    this.tab = found.tab in TABS ? found.tab : "write";
    this.chosen = { ...found.models };
    for (const name of Object.keys(TABS)) {
      if (!found[name]) continue;
      try {
        this.tabs[name].restore(found[name], undoable);
      } catch {
        this.tabs[name].reset();
        this.tabs[name].status.say("What was kept, or sent, does not fit this version of the page, so it was left out.");
      }
    }
  }

  async linked() {
    if (!location.hash) return null;
    try {
      return await fromLink(location.hash);
    } catch {
      this.tabs.write.status.say("That link is damaged, so it was left out.");
      return null;
    } finally {
      history.replaceState(null, "", location.pathname);
    }
  }

  // The models, once they are loaded.
  async load(again = false) {
    const { status } = this.tabs[this.tab];
    try {
      this.models = await this.backend.models();
      while (!this.models.every(({ ready }) => ready)) {
        status.say("The model is being loaded …");
        await new Promise((done) => setTimeout(done, 500));
        this.models = await this.backend.models();
        status.say("");
      }
    } catch (trouble) {
      return status.fail(trouble, () => this.load(true));
    }
    if (again) status.say("");
    for (const { kind } of Object.values(TABS)) {
      const fit = this.models.filter((model) => model.kind === kind).map(({ id }) => id);
      if (!fit.includes(this.chosen[kind])) this.chosen[kind] = fit[0];
    }
    return this.open(this.tab);
  }

  open(tab) {
    this.tab = tab;
    const { kind } = TABS[tab],
      fit = this.models.filter((model) => model.kind === kind);
    for (const [name, each] of Object.entries(this.buttons)) {
      each.setAttribute("aria-selected", String(name === tab));
      each.setAttribute("aria-controls", "panel");
      each.tabIndex = name === tab ? 0 : -1;
    }
    this.body.setAttribute("aria-labelledby", `tab-${tab}`);
    replace(
      this.select,
      fit.map(({ id }) => el("option", { value: id, selected: id === this.chosen[kind] }, id)),
    );
    this.model.hidden = !fit.length;
    const none = this.models.length > 0 && !fit.length;
    replace(
      this.body,
      none
        ? el("p", { class: "said" }, `No model of ${kind}s is served here: start glauber play with one.`)
        : this.tabs[tab].node,
    );
    if (fit.length) this.tabs[tab].open?.();
    this.save();
  }

  choose(model) {
    this.chosen = { ...this.chosen, [TABS[this.tab].kind]: model };
    this.open(this.tab);
  }

  arrow(event) {
    const names = Object.keys(TABS),
      step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    this.open(names[(names.indexOf(this.tab) + step + names.length) % names.length]);
    this.buttons[this.tab].focus();
  }

  state() {
    return { version: 1, tab: this.tab, models: this.chosen, write: this.tabs.write.save(), picture: this.tabs.picture.save() };
  }

  save() {
    if (!this.ready) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.keepNow(), 200);
  }

  // Without the recordings, where these do not fit.
  keepNow() {
    const state = this.state();
    if (!keep(state))
      keep({ ...state, write: { ...state.write, recording: null }, picture: { ...state.picture, recording: null } });
  }

  async share() {
    const { tab, models } = this,
      one = { version: 1, tab, models, [tab]: this.tabs[tab].save() };
    this.tabs[tab].status.copy("The link", location.origin + location.pathname + (await toLink(one)));
  }
}

new App(document.getElementById("root"), new Api()).begin();
