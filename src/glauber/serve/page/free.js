// Fills whose lengths the model chose: many are drawn at once, so there are no steps to be seen; what comes of it is a recording
// of one state. The rows differ in length.

import { givenPieces } from "./gaps.js";
import { Recording } from "./recording.js";

// `answer` is that of the request; tokenize(text) gives {tokens, pieces}.
export async function freeRecording(text, answer, tokenize) {
  const given = givenPieces(text);
  const known = await Promise.all(given.map((piece, k) => bodies(piece, k < given.length - 1, tokenize)));
  const rows = answer.fills.map((gaps) =>
    known.flatMap((body, k) => [...body.given(gaps[k]), ...(gaps[k] ? drawn(gaps[k]) : [])]),
  );
  const each = (name) => rows.map((row) => row.map((site) => site[name]));
  return new Recording({ kind: "text", sites: each("state"), tokens: each("token"), pieces: each("piece") }, [], answer);
}

// A given piece as sites; the space at its end is left out where the gap's first token has it.
async function bodies(piece, before, tokenize) {
  const whole = await sitesOf(piece, tokenize);
  const short = before && piece.endsWith(" ") ? await sitesOf(piece.slice(0, -1), tokenize) : whole;
  return { given: (gap) => (gap?.pieces[0]?.startsWith(" ") ? short : whole) };
}

async function sitesOf(piece, tokenize) {
  if (!piece) return [];
  const { tokens, pieces } = await tokenize(piece);
  return tokens.map((token, k) => ({ token, piece: pieces[k], state: "given" }));
}

const drawn = ({ tokens, pieces }) => tokens.map((token, k) => ({ token, piece: pieces[k], state: "settled" }));
