// The registry of actions: menus, buttons, shortcuts and the help dialog all come from here.

/** name -> {name, text, shortcut, enabled, run, group}. shortcut: "?", "F5", "Alt+ArrowUp", "Ctrl+a"; a list: any of them. */
const actions = new Map();

/** Register an action. enabled: false, or a text that says why it cannot be done now; true by default. */
export function register(action) {
  actions.set(action.name, { enabled: () => true, group: "", ...action });
}

export const all = () => [...actions.values()];
export const find = (name) => actions.get(name);
export const shortcutsOf = (action) => [action.shortcut ?? []].flat();

/** "" where an action can be done, else the reason why not ("-" without one). */
export function refusal(action) {
  const able = action.enabled();
  return able === true ? "" : able || "-";
}

/** Do an action by its name; returns whether it was done. */
export function run(name, event) {
  const action = actions.get(name);
  if (!action || refusal(action)) return false;
  action.run(event);
  return true;
}

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
  if (wanted && run(wanted.name, event)) event.preventDefault();
}

function onClick(event) {
  const button = event.target.closest?.("[data-action]");
  if (button && actions.has(button.dataset.action)) {
    event.preventDefault();
    if (button.getAttribute("aria-disabled") !== "true") run(button.dataset.action, event);
  }
}

/** Set the buttons of the page to what can be done now; the title says the reason, or the shortcut. */
export function refresh(root = document) {
  for (const button of root.querySelectorAll("[data-action]")) {
    const action = actions.get(button.dataset.action);
    if (!action) continue;
    const why = refusal(action);
    button.setAttribute("aria-disabled", String(Boolean(why)));
    if (why.length > 1) button.title = why;
    else if (shortcutsOf(action)[0] && !button.matches("[data-keep-title]")) button.title = `${action.text} (${shortcutsOf(action)[0]})`;
  }
}

document.addEventListener("keydown", onKey);
document.addEventListener("click", onClick);
