// Undo and redo over values that are never changed in place.

export class History {
  constructor(value) {
    this.past = [];
    this.value = value;
    this.future = [];
  }

  // Steps of one kind in a row, such as letters typed, are undone together.
  set(value, kind = null) {
    if (kind === null || kind !== this.kind) this.past.push(this.value);
    if (this.past.length > 200) this.past.shift();
    this.kind = kind;
    this.value = value;
    this.future = [];
  }

  // A step that cannot be undone by itself, such as what a stream brings.
  amend(value) {
    this.value = value;
  }

  // What is there now becomes the first of all.
  restart(value) {
    Object.assign(this, { past: [], value, future: [], kind: null });
  }

  undo() {
    return this.move(this.past, this.future);
  }

  redo() {
    return this.move(this.future, this.past);
  }

  move(from, to) {
    if (!from.length) return false;
    to.push(this.value);
    this.value = from.pop();
    this.kind = null;
    return true;
  }
}
