// The texts that scripts show, in the language of the page.
const said = JSON.parse(document.getElementById("script-texts")?.textContent ?? "{}");

const filled = (text, values) => text.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);

/** The translation of a text; `{name}` in it is replaced by the value of that name. */
export const t = (text, values = {}) => filled(said[text] ?? text, values);

/** As `t`, of a text that depends on a number: one form for 1, one for all others, as English and German have it. */
export const tn = (one, many, number, values = {}) => filled((said[`${one}\n${many}`] ?? [one, many])[number === 1 ? 0 : 1], values);
