// The texts that scripts show, in the language of the page.
const said = JSON.parse(document.getElementById("script-texts")?.textContent ?? "{}");

/** The translation of a text; `{name}` in it is replaced by the value of that name. */
export function t(text, values = {}) {
  return (said[text] ?? text).replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
}
