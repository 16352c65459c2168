// The page of a replay: one recording, with its scrubber. It needs no server.

import { el, replace } from "./dom.js";
import { ImageRow } from "./images.js";
import { Player } from "./player.js";
import { Recording } from "./recording.js";
import { legend, TokenRow } from "./tokens.js";

function headline({ start }) {
  return start.seed === null ? start.model : `${start.model} · seed ${start.seed}`;
}

function rowOf(recording, k, of) {
  const label = of > 1 ? `${k + 1} of ${of}` : "The text";
  const row = new TokenRow({ label });
  return { row, node: el("article", { class: "card" }, of > 1 ? el("h2", {}, `${k + 1}`) : null, row.node) };
}

export function showReplay(root, data) {
  const recording = Recording.from(data),
    images = recording.start.kind === "image";
  const number = images ? 1 : recording.start.tokens.length;
  const pictures = new ImageRow();
  const rows = images ? [] : Array.from({ length: number }, (_, k) => rowOf(recording, k, number));
  const player = new Player((k) => {
    if (images) pictures.draw(recording.images(k));
    else recording.rows(k).forEach((sites, j) => rows[j].row.draw(sites));
  });
  replace(
    root,
    el("header", { class: "top" }, el("span", { class: "mark" }, "glauber"), el("p", { class: "about" }, headline(recording))),
    images ? null : legend(),
    player.node,
    el("section", { class: "cards", "aria-label": "The samples" }, images ? pictures.node : rows.map(({ node }) => node)),
  );
  player.following = false;
  player.grow(recording.last);
  player.show(recording.last);
  return player;
}

const data = document.getElementById("recording");
if (data) showReplay(document.getElementById("root"), JSON.parse(data.textContent));
