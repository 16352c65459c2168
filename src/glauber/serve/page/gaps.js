// A text with gaps, as the library writes them: [[12]] is a gap of 12 tokens, [[ ]] one of any length, [[3-20]] one of so many;
// a plain [[ is written \[[.

const GAP = /\\\[\[|\[\[(\d+| *|\d+-\d+)\]\]/g;

export const LONGEST = 64; // of the slider; any number that fits the model can be typed

export function findGaps(text) {
  return [...text.matchAll(GAP)]
    .filter((found) => found[1] !== undefined)
    .map((found) => ({
      from: found.index,
      to: found.index + found[0].length,
      free: !/^\d+$/.test(found[1]),
      size: Number(found[1]) || 8,
    }));
}

// Pasted text says [[ where it means two brackets; what already is a gap stays one.
export function escapeBrackets(text) {
  return text.replace(/(?<!\\)\[\[(?!(\d+| *|\d+-\d+)\]\])/g, "\\[[");
}

export function escapeAll(text) {
  return text.replaceAll("[[", "\\[[");
}

export function plain(text) {
  return text.replaceAll("\\[[", "[[");
}

// About as many tokens as the stretch has: a word or a mark of punctuation is one, a long word two.
export function guessSize(stretch) {
  const words = stretch.match(/\p{L}+|\p{N}+|[^\s\p{L}\p{N}]/gu) ?? [];
  return Math.max(
    1,
    words.reduce((sum, word) => sum + Math.ceil(word.length / 9), 0),
  );
}

// A stretch of the text becomes a gap; spaces at its ends stay outside, and gaps inside it are swallowed.
export function makeGap({ text, was }, from, to) {
  const stretch = text.slice(from, to);
  const lead = stretch.length - stretch.trimStart().length;
  const core = stretch.trim();
  const a = core ? from + lead : from;
  const b = core ? a + core.length : from;
  const before = findGaps(text.slice(0, a)).length;
  const inside = findGaps(core);
  const size =
    inside.reduce((sum, gap) => sum + gap.size, 0) + (core.replace(GAP, "").trim() ? guessSize(core.replace(GAP, "")) : 0);
  const restored = inside.length ? null : core || null;
  const kept = [...was];
  kept.splice(before, inside.length, restored);
  return { text: `${text.slice(0, a)}[[${size || 4}]]${text.slice(b)}`, was: kept, caret: a };
}

export function resizeGap({ text, was }, k, size) {
  const gap = findGaps(text)[k];
  return { text: `${text.slice(0, gap.from)}[[${size}]]${text.slice(gap.to)}`, was };
}

// The model chooses the length, or the slider does again.
export function freeGap({ text, was }, k, free) {
  const gap = findGaps(text)[k];
  return { text: `${text.slice(0, gap.from)}${free ? "[[ ]]" : `[[${gap.size}]]`}${text.slice(gap.to)}`, was };
}

// The given pieces around the gaps, one more than these.
export function givenPieces(text) {
  const gaps = findGaps(text);
  return [...gaps, { from: text.length }].map((gap, k) => plain(text.slice(k ? gaps[k - 1].to : 0, gap.from)));
}

// What stood there comes back; nothing, where the gap was typed.
export function closeGap({ text, was }, k) {
  const gap = findGaps(text)[k];
  const kept = was.filter((_, j) => j !== k);
  return { text: text.slice(0, gap.from) + (was[k] ?? "") + text.slice(gap.to), was: kept };
}

// The text was edited by hand: which of the gaps are still those that they were.
export function follow({ text, was }, edited) {
  const limit = Math.min(text.length, edited.length);
  let front = 0,
    back = 0;
  while (front < limit && text[front] === edited[front]) front++;
  while (back < limit - front && text.at(-1 - back) === edited.at(-1 - back)) back++;
  const [old, now] = [findGaps(text), findGaps(edited)];
  const same = now.map((gap, k) => {
    if (gap.to <= front) return was[k] ?? null;
    if (gap.from >= edited.length - back) return was[old.length - (now.length - k)] ?? null;
    return null;
  });
  return { text: edited, was: same };
}

// The text in which some sites of a filled row are drawn anew and the others stand: what is held is text, what is not a gap.
export function textOf(sites, free) {
  let text = "",
    held = "",
    size = 0;
  const close = () => {
    text += escapeAll(held) + (size ? `[[${size}]]` : "");
    held = "";
    size = 0;
  };
  sites.forEach((site, k) => {
    if (!free(site, k)) {
      if (size) close();
      held += site.piece;
      return;
    }
    if (!size && /^ \S/.test(site.piece) && !held.endsWith(" ")) held += " "; // a gap after a space begins with one
    size++;
  });
  close();
  return text;
}
