// The server's side of the page, and the only file that knows of HTTP. A model that runs in the page itself would have the same
// functions: models, infill, tokenize, token, sampleImages, inpaint. Each that streams tells onevent(name, data) what comes.

export class Trouble extends Error {
  // kind: "refused" (what was asked is wrong), "busy", "gone", "key" or "stopped".
  constructor(kind, message, retry = null) {
    super(message);
    this.kind = kind;
    this.retry = retry;
  }
}

const GONE = "The server cannot be reached. What you wrote is kept on this page; start glauber play again, then try again.";

// What a line of events says: [{event, data}], and what is left over for the next one.
export function parseEvents(text) {
  const blocks = text.split(/\r?\n\r?\n/);
  const rest = blocks.pop();
  const events = blocks.map(parseBlock).filter((event) => event.data !== "" && event.data !== "[DONE]");
  return { events: events.map(({ event, data }) => ({ event, data: JSON.parse(data) })), rest };
}

function parseBlock(block) {
  const found = { event: "message", data: "" };
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("event:")) found.event = line.slice(6).trim();
    if (line.startsWith("data:")) found.data += line.slice(5).trimStart();
  }
  return found;
}

async function troubleOf(response) {
  const told = await response.json().catch(() => ({}));
  const message = told.error?.message ?? `The server answered ${response.status}.`;
  if (response.status === 429 || response.status === 503) {
    return new Trouble("busy", message, Number(response.headers.get("Retry-After")) || 5);
  }
  return new Trouble({ 401: "key", 403: "key" }[response.status] ?? "refused", message);
}

export class Api {
  constructor(base = "") {
    this.base = base;
    this.key = null;
  }

  async call(path, body = null, signal = undefined) {
    const headers = this.key ? { Authorization: `Bearer ${this.key}` } : {};
    const request = body === null ? {} : { method: "POST", body: JSON.stringify(body) };
    if (body !== null) headers["Content-Type"] = "application/json";
    try {
      const response = await fetch(this.base + path, { ...request, headers, signal });
      if (response.ok) return response;
      throw await troubleOf(response);
    } catch (error) {
      throw asTrouble(error);
    }
  }

  async json(path, body = null) {
    const response = await this.call(path, body);
    return response.json().catch(() => {
      throw new Trouble("gone", GONE);
    });
  }

  async stream(path, body, onevent, signal) {
    const response = await this.call(path, { ...body, stream: true }, signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "",
      done = null;
    try {
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const parsed = parseEvents(rest + part.value);
        rest = parsed.rest;
        for (const { event, data } of parsed.events) {
          if (event === "error") throw new Trouble("refused", data.error.message);
          if (event === "done") done = data;
          onevent(event, data);
        }
      }
    } catch (error) {
      throw asTrouble(error);
    }
    if (done === null) throw new Trouble("gone", GONE);
    return done;
  }

  async models() {
    return (await this.json("/v1/models")).data;
  }

  infill(request, onevent, signal) {
    return this.stream("/v1/infill", request, onevent, signal);
  }

  sampleImages(request, onevent, signal) {
    return this.stream("/v1/images/sample", request, onevent, signal);
  }

  inpaint(request, onevent, signal) {
    return this.stream("/v1/images/inpaint", request, onevent, signal);
  }

  tokenize(request) {
    return this.json("/v1/tokenize", request);
  }

  token(request) {
    return this.json("/v1/token", request);
  }
}

function asTrouble(error) {
  if (error instanceof Trouble) return error;
  if (error.name === "AbortError") return new Trouble("stopped", "Stopped.");
  return new Trouble("gone", GONE);
}
