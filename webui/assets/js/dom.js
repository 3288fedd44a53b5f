// Elements from scripts. Text is always set as text: a name from an endpoint is never parsed as HTML.

/** An element. attributes: null and false leave one out; `on` holds listeners. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    else if (value !== null && value !== false && value !== undefined) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

// Control and format characters (C0, C1, bidi, zero width, separators), and lone surrogates.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]/;
const SHORT = { 9: "\\t", 10: "\\n", 13: "\\r" };

function escaped(code) {
  // An octet that is not UTF-8.
  if (code >= 0xdc80 && code <= 0xdcff) return `\\x${(code - 0xdc00).toString(16)}`;
  return SHORT[code] ?? (code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`);
}

/** As nameOf, where only a text can be: titles, labels, messages. The isolates keep the text around it in its order. */
export const plainName = (text) => `\u2068${nameOf(text).textContent}\u2069`;

/** A name from an endpoint: isolated, and with nothing unseen in it. Same as the filter `name` of the templates. */
export function nameOf(text) {
  const made = document.createElement("bdi");
  made.className = "name";
  if (!HIDDEN.test(text)) {
    made.textContent = text;
    return made;
  }
  for (const letter of String(text)) {
    const code = letter.codePointAt(0);
    made.append(code < 0x10000 && HIDDEN.test(letter) ? el("span", { class: "esc" }, escaped(code)) : letter);
  }
  made.normalize();
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** An element of a drawing. */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** An icon by its name in icons.svg, for use beside a text. */
export function icon(name, size = 20) {
  const at = { class: "icon", width: size, height: size, viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" };
  return svg("svg", at, svg("use", { href: `${document.body.dataset.icons}#${name}` }));
}

export const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
