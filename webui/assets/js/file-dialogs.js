// The dialogs of the Transfer page: a new folder, another name, a deletion, the preview of a file and of a mirror.
import { api, firstLine, signInAgain } from "./api.js";
import { confirmDialog, openDialog, toast } from "./dialogs.js";
import { encodePath, list, operation } from "./entries.js";
import { el, nameOf, plainName } from "./dom.js";
import { count, octets } from "./format.js";
import { t } from "./words.js";

/** Octets of a file that are shown, and folders that are compared before a mirror. */
const SHOWN = 256 * 1024;
const COMPARED = 40;

export const report = (error) => toast(firstLine(error.message), { tone: "bad", link: error.domains ? { href: signInAgain(error), text: t("Sign in again") } : null });
const newId = async () => (await api("GET", "/v0.10/submission_id")).value;

/** Ask for a name; resolves to it, or to "". */
function askName(title, label, act, value = "") {
  return new Promise((answer) => {
    const input = el("input", { id: "dialog-name", autocomplete: "off", spellcheck: "false", maxlength: "255", value });
    const wrong = el("span", { class: "wrong", role: "alert" });
    const form = el("form", {}, el("p", { class: "field" }, el("label", { for: "dialog-name" }, label), input, wrong), el("p", { class: "actions" }, el("button", { class: "main" }, act)));
    const shown = openDialog(title, form);
    let name = "";
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = input.value;
      if (!text.trim() || text.includes("/") || text === "." || text === "..") {
        wrong.textContent = t("Expected a name without slashes.");
        return;
      }
      name = text;
      shown.close();
    });
    shown.addEventListener("close", () => answer(name));
    input.focus();
    const dot = value.lastIndexOf(".");
    input.setSelectionRange(0, dot > 0 ? dot : value.length);
  });
}

export async function makeFolder(pane) {
  const name = await askName(t("New folder"), t("Name"), t("Make the folder"));
  if (!name) return;
  await api("POST", operation(pane.endpoint, "mkdir"), { path: `${pane.path}${name}` });
  await pane.load(name);
}

export async function rename(pane, entry) {
  const name = await askName(t("Rename"), t("New name"), t("Rename"), entry.name);
  if (!name || name === entry.name) return;
  await api("POST", operation(pane.endpoint, "rename"), { old_path: `${pane.path}${entry.name}`, new_path: `${pane.path}${name}` });
  await pane.load(name);
}

/** Submit a DELETE task; resolves to its id, or to "". */
export async function remove(pane, entries) {
  const shown = el("ul", { class: "names" }, ...entries.slice(0, 50).map((one) => el("li", {}, nameOf(one.name), one.folder ? "/" : "")), entries.length > 50 && el("li", {}, t("and {n} more", { n: count(entries.length - 50) })));
  const folders = entries.some((one) => one.folder);
  const text = el("span", {}, folders ? t("Folders are deleted with all that is in them. Nothing brings them back.") : t("Nothing brings them back."), shown);
  const yes = await confirmDialog({ title: t("Delete {n} entries on {name}?", { n: count(entries.length), name: plainName(pane.endpoint.name) }), text, act: t("Delete"), danger: true });
  if (!yes) return "";
  const document_ = { DATA_TYPE: "delete", submission_id: await newId(), endpoint: pane.endpoint.id, recursive: folders, DATA: entries.map((one) => ({ DATA_TYPE: "delete_item", path: `${pane.path}${one.name}` })) };
  return (await api("POST", "/v0.10/delete", document_)).task_id;
}

export const downloadAddress = (pane, entry) => `${operation(pane.endpoint, "file")}?path=${encodePath(pane.path + entry.name)}`;

export function download(pane, entry) {
  const link = el("a", { href: downloadAddress(pane, entry), download: true });
  document.body.append(link);
  link.click();
  link.remove();
}

/** Show the beginning of a file as text; what is no text can be downloaded. */
export async function preview(pane, entry) {
  const box = el("pre", { class: "preview", tabindex: "0", "aria-label": plainName(entry.name) }, t("Reading…"));
  const say = el("p", { class: "soft small" }, octets(entry.size));
  const get = el("a", { class: "button", href: downloadAddress(pane, entry), download: true }, t("Download"));
  const shown = openDialog(entry.name, box, say, el("p", { class: "actions" }, get));
  shown.classList.add("wide");
  shown.querySelector("h2").replaceChildren(nameOf(entry.name));
  try {
    const headers = entry.size > SHOWN ? { Range: `bytes=0-${SHOWN - 1}` } : {};
    const answer = await fetch(downloadAddress(pane, entry), { headers, credentials: "same-origin" });
    if (!answer.ok) throw new Error((await answer.json()).message);
    const octetsRead = new Uint8Array(await answer.arrayBuffer());
    if (octetsRead.subarray(0, 8192).includes(0)) {
      box.textContent = t("This is not a text. Download it to open it with a program of yours.");
    } else {
      box.textContent = new TextDecoder().decode(octetsRead) || t("This file is empty.");
      if (entry.size > SHOWN) say.textContent = t("The first {n} of {size}", { n: octets(SHOWN), size: octets(entry.size) });
    }
  } catch (error) {
    box.textContent = firstLine(error.message);
  }
}

/** What a mirror would delete: a comparison of the folders, as far as COMPARED listings go. */
async function extras(source, target, folders, signal) {
  const found = { paths: [], more: false };
  const todo = folders.map((one) => `${one.name}/`);
  for (let done = 0; todo.length; done += 1) {
    if (done === COMPARED) { found.more = true; break; }
    const inner = todo.shift();
    const there = await list(target.endpoint, target.path + inner, signal, () => {}).catch((error) => { if (error.status === 404) return null; throw error; });
    if (!there) continue;
    const here = await list(source.endpoint, source.path + inner, signal, () => {});
    const known = new Map(here.entries.map((one) => [one.name, one]));
    for (const one of there.entries) {
      if (!known.has(one.name)) found.paths.push(`${target.path}${inner}${one.name}${one.folder ? "/" : ""}`);
      else if (one.folder && known.get(one.name).folder) todo.push(`${inner}${one.name}/`);
    }
  }
  return found;
}

/** Show what a mirror would delete, and have it typed; resolves to whether it shall be done. */
export async function confirmMirror(source, target, entries, word) {
  const stop = new AbortController();
  const wait = openDialog(t("Looks for what the mirror would delete…"), el("progress", {}));
  wait.addEventListener("close", () => stop.abort());
  let found;
  try {
    found = await extras(source, target, entries.filter((one) => one.folder), stop.signal);
  } finally {
    wait.close();
  }
  const number = count(found.paths.length);
  const say = found.more ? t("At least {n} entries would be deleted (the folders are too many to compare all).", { n: number }) : t("{n} entries would be deleted.", { n: number });
  const shown = el("ul", { class: "names" }, ...found.paths.slice(0, 100).map((path) => el("li", {}, nameOf(path))));
  return confirmDialog({ title: t("Mirror to {name}?", { name: plainName(target.endpoint.name) }), text: el("span", {}, say, shown), act: t("Copy and delete"), danger: true, must: word });
}

/** Ask what to do with files that exist already: resolves to "replace", "skip" or "". */
export function askConflict(names) {
  return new Promise((answer) => {
    let chosen = "";
    const choose = (value) => () => { chosen = value; shown.close(); };
    const shown = openDialog(t("{n} files are there already", { n: count(names.length) }), el("ul", { class: "names" }, ...names.slice(0, 50).map((name) => el("li", {}, nameOf(name)))),
      el("p", { class: "actions" }, el("button", { type: "button", on: { click: choose("skip") } }, t("Skip these")), el("button", { type: "button", class: "main", on: { click: choose("replace") } }, t("Replace these"))));
    shown.addEventListener("close", () => answer(chosen));
  });
}

export { newId };
