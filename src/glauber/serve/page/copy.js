// What is on the page as a command, as Python, as a link.

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function asCurl(origin, path, request) {
  return `curl ${origin}${path} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(request))}`;
}

// A string of JSON is one of Python, and numbers are the same. Whatever a link has brought, a name is a name and a value a value.
const named = (options) =>
  Object.entries(options)
    .filter(([name, value]) => /^\w+$/.test(name) && value !== undefined)
    .map(([name, value]) => `${name}=${JSON.stringify(value)}`);

export function asPython({ model, text, n, ...options }) {
  const given = [JSON.stringify(text), ...named({ num: n, ...options })];
  return `import glauber

model = glauber.load(${JSON.stringify(model)})
for text in model.infill(${given.join(", ")}):
    print(text)
`;
}

export function imagePython({ model, n, ...options }, fills) {
  const more = named({ num: n, ...options, class_: options.class, class: undefined });
  const given = fills ? ['Image.open("picture.png")', 'Image.open("mask.png")', ...more] : more;
  return `import glauber
${fills ? "from PIL import Image\n" : ""}
model = glauber.load(${JSON.stringify(model)})
for k, image in enumerate(model.${fills ? "inpaint" : "sample"}(${given.join(", ")})):
    image.save(f"{k}.png")
`;
}
