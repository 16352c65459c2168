// One line that says what goes on, what went wrong and what to do about it.

import { button, el, replace } from "./dom.js";

export class Status {
  // onkey(key): the server's key was typed in.
  constructor(onkey) {
    this.onkey = onkey;
    this.node = el("div", { class: "said", role: "status", "aria-live": "polite" });
  }

  say(text, ...more) {
    this.node.className = "said";
    replace(this.node, text, more);
  }

  fail(trouble, again) {
    if (trouble.kind === "stopped") return this.say("Stopped. Your text is as it was.");
    const wait = trouble.retry ? ` Try again in ${trouble.retry} s.` : "";
    this.say(trouble.message + wait, trouble.kind === "key" ? this.asking(again) : button("Try again", again));
    this.node.className = "said wrong";
    return undefined;
  }

  asking(again) {
    const field = el("input", { type: "password", "aria-label": "The server's key", autocomplete: "off" });
    const form = el("form", { class: "key" }, field, el("button", {}, "Use this key"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.onkey(field.value);
      again();
    });
    return form;
  }

  // Into the clipboard; where that is not allowed, into a field from which it can be taken.
  async copy(what, text) {
    try {
      await navigator.clipboard.writeText(text);
      this.say(`${what} is in the clipboard.`);
    } catch {
      const field = el("textarea", { class: "take", readonly: true, rows: 4, "aria-label": what });
      field.value = text;
      this.say(`${what}, to be taken from here:`, field);
      field.select();
    }
  }
}
