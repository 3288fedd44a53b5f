// What every page has: local times, shortcuts, the help, menus that close, texts to copy, and no form sent twice.
import { refresh, register } from "./actions.js";
import { showHelp, toast } from "./dialogs.js";
import { localTimes } from "./format.js";
import { t } from "./words.js";

const goTo = (path) => document.querySelector(`.pages a[href="${path}"]`)?.click();
const isThere = (path) => () => Boolean(document.querySelector(`.pages a[href="${path}"]`));

register({ name: "help", text: t("Show this help"), shortcut: "?", group: t("Everywhere"), run: showHelp });
for (const [key, path, text] of [["t", "/transfer", t("Go to Transfer")], ["a", "/activity", t("Go to Activity")], ["e", "/endpoints", t("Go to Endpoints")]]) {
  if (isThere(path)()) register({ name: `go${path}`, text, shortcut: `Alt+${key}`, group: t("Everywhere"), run: () => goTo(path) });
}

document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll("details.menu[open]")) if (!open.contains(event.target)) open.open = false;
  const button = event.target.closest?.("button[data-copies]");
  if (button) copy(document.getElementById(button.dataset.copies));
});
document.addEventListener("keydown", (event) => {
  const open = event.key === "Escape" && document.querySelector("details.menu[open]");
  if (open) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});

async function copy(shown) {
  try {
    await navigator.clipboard.writeText(shown.value ?? shown.textContent);
    toast(t("Copied."), { tone: "good", seconds: 3 });
  } catch {
    getSelection().selectAllChildren(shown);
    toast(t("Press Ctrl+C to copy the marked text."));
  }
}

// A second press of a button does not send the form again. The form can be sent anew when the page is shown again.
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented) return;
  if (event.target.dataset.sent) event.preventDefault();
  else if (event.target.method === "post") event.target.dataset.sent = "yes";
});
addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach((form) => delete form.dataset.sent));

document.documentElement.classList.add("scripted");
localTimes();
refresh();
