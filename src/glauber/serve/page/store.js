// What the page keeps in the browser, so that nothing typed is lost, and in a link, so that it can be sent.

const KEY = "glauber.play";

export function keep(state) {
  try {
    localStorage.setItem(KEY, JSON.stringify(state));
    return true;
  } catch {
    return false; // full, or forbidden
  }
}

export function kept() {
  try {
    return JSON.parse(localStorage.getItem(KEY));
  } catch {
    return null;
  }
}

async function through(bytes, transform) {
  const stream = new Blob([bytes]).stream().pipeThrough(transform);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function toLink(state) {
  const small = await through(new TextEncoder().encode(JSON.stringify(state)), new CompressionStream("deflate-raw"));
  const text = Array.from(small, (byte) => String.fromCharCode(byte)).join("");
  return `#s=${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

export async function fromLink(hash) {
  if (!hash.startsWith("#s=")) return null;
  const bytes = Uint8Array.from(atob(hash.slice(3).replaceAll("-", "+").replaceAll("_", "/")), (sign) => sign.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw"))));
}
