// Buttons with `data-reads-into`: they read a text file into a field. The file goes nowhere but into the form.
import "./base.js";
import { el } from "./dom.js";
import { toast } from "./dialogs.js";
import { t } from "./words.js";

const MOST_OCTETS = 65536;

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-reads-into]");
  if (!button) return;
  const chooser = el("input", { type: "file" });
  chooser.addEventListener("change", async () => {
    const [file] = chooser.files;
    if (file && file.size <= MOST_OCTETS) document.getElementById(button.dataset.readsInto).value = await file.text();
    else if (file) toast(t("This file is too large for a credential."), { tone: "bad" });
  });
  chooser.click();
});
