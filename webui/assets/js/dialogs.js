// Dialogs and toasts.
import { all, keyName, setSingleKeys, shortcutsOf, singleKeys } from "./actions.js";
import { el, icon } from "./dom.js";
import { t } from "./words.js";

/** Show a dialog; returns its element, which is removed when it closes. content: elements. */
export function openDialog(title, ...content) {
  const id = `dialog-${Date.now()}`;
  const close = el("button", { type: "button", class: "icon-only", "aria-label": t("Close") }, icon("close"));
  const shown = el("dialog", { "aria-labelledby": id }, el("div", { class: "title" }, el("h2", { id }, title), close), el("div", { class: "inside" }, ...content));
  const before = document.activeElement;
  close.addEventListener("click", () => shown.close());
  shown.addEventListener("click", (event) => event.target === shown && shown.close());
  shown.addEventListener("close", () => {
    shown.remove();
    before?.focus?.();
  });
  document.body.append(shown);
  shown.showModal();
  return shown;
}

/** Ask before something is done. Resolves to whether it shall be. must: a text that has to be typed first. */
export function confirmDialog({ title, text, act, danger = false, must = "" }) {
  return new Promise((answer) => {
    const yes = el("button", { type: "button", class: danger ? "main danger" : "main" }, act);
    const no = el("button", { type: "button" }, t("Keep as it is"));
    const typed = must ? el("input", { id: "dialog-typed", autocomplete: "off", spellcheck: "false" }) : null;
    const field = must && el("p", { class: "field" }, el("label", { for: "dialog-typed" }, t("Type {word} to confirm", { word: must })), typed);
    const shown = openDialog(title, el("p", {}, text), field, el("p", { class: "actions" }, no, yes));
    let done = false;
    const allow = () => (yes.disabled = Boolean(must) && typed.value !== must);
    typed?.addEventListener("input", allow);
    allow();
    yes.addEventListener("click", () => { done = true; shown.close(); });
    no.addEventListener("click", () => shown.close());
    shown.addEventListener("close", () => answer(done));
    (typed ?? no).focus();
  });
}

/** Show a short message for some seconds. tone: "", "good" or "bad"; link: {href, text}. */
export function toast(text, { tone = "", link = null, seconds = 8 } = {}) {
  const close = el("button", { type: "button", class: "icon-only", "aria-label": t("Close") }, icon("close"));
  const shown = el("div", { class: `toast ${tone}` }, el("div", {}, text, " ", link && el("a", { href: link.href }, link.text)), close);
  close.addEventListener("click", () => shown.remove());
  document.getElementById("toasts").append(shown);
  if (tone !== "bad") setTimeout(() => shown.remove(), seconds * 1000);
}

/** The help: all actions of this page that have a shortcut, by group. */
export function showHelp() {
  const groups = new Map();
  for (const action of all().filter((one) => shortcutsOf(one).length)) {
    groups.set(action.group, [...(groups.get(action.group) ?? []), action]);
  }
  const parts = [...groups].flatMap(([group, found]) => [
    group && el("h3", {}, group),
    el("dl", { class: "shortcuts" }, ...found.flatMap((action) => [
      el("dt", {}, ...shortcutsOf(action).flatMap((key, at) => [at ? " " : "", el("kbd", {}, keyName(key))])),
      el("dd", {}, action.text),
    ])),
  ]);
  const box = el("input", { type: "checkbox", id: "single-keys", on: { change: () => setSingleKeys(box.checked) } });
  box.checked = singleKeys();
  const choice = el("label", { class: "check" }, box, el("span", {}, t("Letters and signs alone are shortcuts, too")));
  openDialog(t("Keyboard shortcuts"), el("div", { class: "stack-s" }, ...parts, choice));
}

/** Forms with `data-confirm`: ask first. The texts are attributes of the form. */
document.addEventListener("submit", async (event) => {
  const { confirm, confirmText, confirmAct, confirmMust } = event.target.dataset;
  if (!confirm || event.target.dataset.confirmed) return;
  event.preventDefault();
  const { target, submitter } = event;
  const yes = await confirmDialog({ title: confirm, text: confirmText ?? "", act: confirmAct ?? t("Do it"), danger: target.hasAttribute("data-danger"), must: confirmMust });
  if (yes) {
    target.dataset.confirmed = "yes";
    // The service asks by a page where no script has asked.
    if (!target.elements.confirmed) target.append(el("input", { type: "hidden", name: "confirmed", value: "yes" }));
    target.requestSubmit(submitter);
    delete target.dataset.confirmed;
  }
});
