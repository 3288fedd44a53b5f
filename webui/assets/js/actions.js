// The registry of actions: menus, buttons, shortcuts and the help dialog all come from here.

/** name -> action. shortcut: "?", "F5", "Alt+ArrowUp", "Ctrl+a"; a list: any of them. */
const actions = new Map();

/** What an action is done to, for an element that has the button or the focus; of a page with one subject: nothing. */
let subjectOf = () => undefined;
export const setSubject = (find) => { subjectOf = find; };

/**
 * Register {name, text, shortcut, group, icon, menu, enabled, run, hint}. enabled(subject): false, or a text that says why it cannot
 * be done now; true by default. run(subject). hint(subject): the title of its button. menu: the part of the menu that has it.
 */
export function register(action) {
  actions.set(action.name, { enabled: () => true, group: "", ...action });
}

export const all = () => [...actions.values()];
export const find = (name) => actions.get(name);
export const shortcutsOf = (action) => [action.shortcut ?? []].flat();

/** "" where an action can be done, else the reason why not ("-" without one). */
export function refusal(action, subject) {
  const able = action.enabled(subject);
  return able === true ? "" : able || "-";
}

/** Do an action by its name; returns whether it was done. */
export function run(name, subject = subjectOf(document.activeElement)) {
  const action = actions.get(name);
  if (!action || refusal(action, subject)) return false;
  action.run(subject);
  return true;
}

/** The actions of these parts of the menu, part by part, as `openMenu` takes them. */
export function menuParts(parts, subject) {
  return parts.map((part) => all().filter((one) => one.menu === part).map((action) => ({
    name: action.name, text: action.text, icon: action.icon, key: shortcutsOf(action)[0], why: refusal(action, subject), run: () => run(action.name, subject),
  })));
}

const KEYS = { ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", " ": "Space", Delete: "Del", Escape: "Esc" };
/** A shortcut as it is shown. */
export const keyName = (key) => key.split("+").map((part) => KEYS[part] ?? (part.length === 1 ? part.toUpperCase() : part)).join("+");

function nameOfKey(event) {
  const parts = [];
  if (event.ctrlKey || event.metaKey) parts.push("Ctrl");
  if (event.altKey) parts.push("Alt");
  if (event.shiftKey && event.key.length > 1) parts.push("Shift");
  return [...parts, event.key.length === 1 && parts.length ? event.key.toLowerCase() : event.key].join("+");
}

const writes = (target) => target instanceof Element && target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");

const SINGLE = "single-keys";

/** Whether a key alone does something: the reader can turn that off (WCAG 2.1.4). Keys of a focused part always work. */
export const singleKeys = () => localStorage.getItem(SINGLE) !== "off";
export const setSingleKeys = (on) => localStorage.setItem(SINGLE, on ? "on" : "off");
const isSingle = (key) => key.length === 1;
const works = (action, key, event) => (action.within ? event.target.closest?.(action.within) : !isSingle(key) || singleKeys());

function onKey(event) {
  if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
  const key = nameOfKey(event);
  if (writes(event.target) && !key.startsWith("F")) return;
  const wanted = all().find((action) => shortcutsOf(action).includes(key) && works(action, key, event));
  if (wanted && run(wanted.name, subjectOf(event.target))) event.preventDefault();
}

function onClick(event) {
  const button = event.target.closest?.("[data-action]");
  if (button && actions.has(button.dataset.action)) {
    event.preventDefault();
    if (button.getAttribute("aria-disabled") !== "true") run(button.dataset.action, subjectOf(button));
  }
}

/** Set the buttons of the page to what can be done now; the title says the reason, or the shortcut. */
export function refresh(root = document) {
  for (const button of root.querySelectorAll("[data-action]")) {
    const action = actions.get(button.dataset.action);
    if (!action) continue;
    const subject = subjectOf(button);
    const why = refusal(action, subject);
    button.setAttribute("aria-disabled", String(Boolean(why)));
    if (why.length > 1) button.title = why;
    else if (shortcutsOf(action)[0]) button.title = `${action.hint?.(subject) ?? action.text} (${keyName(shortcutsOf(action)[0])})`;
  }
}

document.addEventListener("keydown", onKey);
document.addEventListener("click", onClick);
