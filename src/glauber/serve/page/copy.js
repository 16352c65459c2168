// What is on the page as a command, as Python, as a link.

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function asCurl(origin, path, request) {
  return `curl ${origin}${path} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(request))}`;
}

// A string of JSON is one of Python; numbers are the same, and nothing else is in a request.
export function asPython({ model, text, n, ...options }) {
  const more = Object.entries(options).map(([name, value]) => `, ${name}=${JSON.stringify(value)}`);
  return `import glauber

model = glauber.load(${JSON.stringify(model)})
for text in model.infill(${JSON.stringify(text)}, num=${n}${more.join("")}):
    print(text)
`;
}

export function imagePython({ model, n, ...options }, fills) {
  const named = { ...options, class_: options.class };
  delete named.class;
  const more = Object.entries(named)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  const call = fills
    ? ['inpaint(Image.open("picture.png"), Image.open("mask.png")', `num=${n}`, ...more]
    : [`sample(${n}`, ...more];
  return `import glauber
${fills ? "from PIL import Image\n" : ""}
model = glauber.load(${JSON.stringify(model)})
for k, image in enumerate(model.${call.join(", ")})):
    image.save(f"{k}.png")
`;
}
