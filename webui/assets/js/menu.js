// A menu of actions at a place of the page (the ARIA pattern "menu"): by a right click, a long press, a key or a button.
import { keyName } from "./actions.js";
import { el, icon } from "./dom.js";

/** Pixels between the menu and the edge of the window. */
const EDGE = 8;
let shown = null;

/** Show a menu. parts: lists of {name, text, icon, key, why, run}; why: the reason why not. back: gets the focus when it closes. */
export function openMenu(label, parts, { x, y }, back) {
  closeMenu();
  const rows = parts.filter((part) => part.length).flatMap((part, at) => [at > 0 && el("div", { role: "separator" }), ...part.map(item)]);
  shown = el("div", { class: "context-menu", role: "menu", "aria-label": label, tabindex: "-1", on: { keydown: onKey } }, ...rows);
  shown.back = back;
  // Within a landmark: who goes through the page by its parts finds it.
  document.querySelector("main").append(shown);
  const { offsetWidth: width, offsetHeight: height } = shown;
  shown.style.left = `${Math.max(EDGE, Math.min(x, innerWidth - width - EDGE))}px`;
  shown.style.top = `${Math.max(EDGE, Math.min(y, innerHeight - height - EDGE))}px`;
  (items().find((one) => one.ariaDisabled !== "true") ?? shown).focus({ preventScroll: true });
}

export function closeMenu({ focus = false } = {}) {
  if (!shown) return;
  const { back } = shown;
  shown.remove();
  shown = null;
  if (focus) back.focus({ preventScroll: true });
}

function item({ name, text, icon: picture, key, why, run }) {
  const act = () => {
    if (why) return;
    closeMenu({ focus: true });
    run();
  };
  const at = { type: "button", role: "menuitem", tabindex: "-1", "data-name": name, "aria-disabled": why ? "true" : null, title: why.length > 1 ? why : null };
  return el("button", { ...at, on: { click: act } }, picture ? icon(picture, 18) : el("span", { class: "no-icon" }), el("span", {}, text), key && el("kbd", { "aria-hidden": "true" }, keyName(key)));
}

const items = () => [...shown.querySelectorAll("[role=menuitem]")];

function onKey(event) {
  const all = items();
  const at = all.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at < 0 ? all.length - 1 : at - 1, Home: 0, End: all.length - 1 }[event.key];
  event.stopPropagation();
  if (to !== undefined) all[(to + all.length) % all.length].focus();
  else if (event.key === "Escape" || event.key === "Tab") closeMenu({ focus: true });
  else if (event.key.length === 1 && event.key !== " ") {
    const letter = event.key.toLowerCase();
    [...all.slice(at + 1), ...all.slice(0, at + 1)].find((one) => one.textContent.trim().toLowerCase().startsWith(letter))?.focus();
  } else return;
  event.preventDefault();
}

addEventListener("pointerdown", (event) => shown?.contains(event.target) || closeMenu(), true);
addEventListener("wheel", (event) => shown?.contains(event.target) || closeMenu(), { capture: true, passive: true });
addEventListener("resize", () => closeMenu());
addEventListener("blur", () => closeMenu());
