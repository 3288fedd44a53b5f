// The dialogs of the Transfer page: a new folder, another name, a deletion, the preview of a file and of a mirror.
import { api, firstLine, signInAgain } from "./api.js";
import { confirmDialog, openDialog, toast } from "./dialogs.js";
import { encodePath, list, operation, steps } from "./entries.js";
import { el, nameOf, plainName } from "./dom.js";
import { count, octets } from "./format.js";
import { t, tn } from "./words.js";

/** Octets of a file that are shown, and folders that are compared before a mirror. */
const SHOWN = 256 * 1024;
const COMPARED = 40;

export const report = (error) => toast(firstLine(error.message), { tone: "bad", link: error.domains ? { href: signInAgain(error), text: t("Sign in again") } : null });
const newId = async () => (await api("GET", "/v0.10/submission_id")).value;

/** Endpoint and folder of a pane, as a text. */
export const placeOf = (pane) => `${plainName(pane.endpoint?.name ?? "")}: ${plainName(pane.path)}`;

/** Ask for a text; resolves to it, or to "". hint: what is done with it, and where; wrong(text): why it cannot be, or "". */
function askText({ title, hint, label, act, value = "", most = 255, isWrong = notAName }) {
  return new Promise((answer) => {
    const input = el("input", { id: "dialog-name", autocomplete: "off", spellcheck: "false", maxlength: String(most), value, "aria-describedby": "dialog-hint" });
    const wrong = el("span", { class: "wrong", role: "alert" });
    const cancel = el("button", { type: "button", on: { click: () => shown.close() } }, t("Cancel"));
    const form = el("form", {}, el("p", { class: "hint", id: "dialog-hint" }, hint), el("p", { class: "field" }, el("label", { for: "dialog-name" }, label), input, wrong), el("p", { class: "actions" }, cancel, el("button", { class: "main" }, act)));
    const shown = openDialog(title, form);
    let text = "";
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      wrong.textContent = isWrong(input.value);
      if (wrong.textContent) return;
      text = input.value;
      shown.close();
    });
    shown.addEventListener("close", () => answer(text));
    input.focus();
    const dot = value.lastIndexOf(".");
    input.setSelectionRange(0, dot > 0 ? dot : value.length);
  });
}

function notAName(text) {
  return !text.trim() || text.includes("/") || text === "." || text === ".." ? t("Expected a name without slashes.") : "";
}

const isIn = (pane, path = pane.path) => el("span", {}, t("Endpoint:"), " ", nameOf(pane.endpoint.name), el("br"), t("Folder:"), " ", nameOf(path));

export async function makeFolder(pane) {
  const { endpoint, path } = pane;
  const name = await askText({ title: t("New folder"), hint: isIn(pane), label: t("Name"), act: t("Make the folder") });
  if (!name) return;
  await api("POST", operation(endpoint, "mkdir"), { path: `${path}${name}` });
  if (pane.endpoint === endpoint && pane.path === path) await pane.load(name);
}

export async function rename(pane, entry) {
  const { endpoint, path } = pane;
  const name = await askText({ title: t("Rename"), hint: isIn(pane), label: t("New name"), act: t("Rename"), value: entry.name });
  if (!name || name === entry.name) return;
  await api("POST", operation(endpoint, "rename"), { old_path: `${path}${entry.name}`, new_path: `${path}${name}` });
  if (pane.endpoint === endpoint && pane.path === path) await pane.load(name);
}

/** Share a folder, and go to the page that says who has access; where it is shared already, go there. */
export async function share({ endpoint }, path) {
  const { DATA: known } = await api("GET", `/v0.10/endpoint/${endpoint.id}/my_shared_endpoint_list`);
  let id = known.find((one) => one.host_path === path)?.id;
  if (!id) {
    const name = steps(path).at(-1)?.[0] ?? "/";
    const title = await askText({ title: t("Share this folder"), hint: isIn({ endpoint }, path), label: t("Title"), act: t("Share it"), value: plainName(name).slice(1, -1), most: 256, isWrong: (text) => (text.trim() ? "" : t("Expected a title.")) });
    if (!title) return;
    ({ id } = await api("POST", "/v0.10/shared_endpoint", { DATA_TYPE: "shared_endpoint", host_endpoint_id: endpoint.id, host_path: path, display_name: title.trim() }));
  }
  location.assign(`/endpoints/${id}#rules`);
}

/** Copy paths, one a line. */
export async function copyPaths(paths) {
  const text = paths.join("\n");
  try {
    await navigator.clipboard.writeText(text);
    toast(t("Copied."), { tone: "good", seconds: 3 });
  } catch {
    // No permission, or a page without TLS: the reader copies it.
    const box = el("textarea", { readonly: true, "aria-label": t("Path") });
    box.value = text;
    openDialog(t("Press Ctrl+C to copy the marked text."), box);
    box.select();
  }
}

/** Submit a DELETE task; resolves to its id, or to "". */
export async function remove(pane, entries) {
  const shown = el("ul", { class: "names" }, ...entries.slice(0, 50).map((one) => el("li", {}, nameOf(one.name), one.folder ? "/" : "")), entries.length > 50 && el("li", {}, t("and {n} more", { n: count(entries.length - 50) })));
  const folders = entries.some((one) => one.folder);
  const text = el("span", {}, folders ? t("Folders are deleted with all that is in them. Nothing brings them back.") : t("Nothing brings them back."), shown);
  const yes = await confirmDialog({ title: tn("Delete {n} entry on {name}?", "Delete {n} entries on {name}?", entries.length, { n: count(entries.length), name: plainName(pane.endpoint.name) }), text, act: t("Delete"), danger: true });
  if (!yes) return "";
  const document_ = { DATA_TYPE: "delete", submission_id: await newId(), endpoint: pane.endpoint.id, recursive: folders, DATA: entries.map((one) => ({ DATA_TYPE: "delete_item", path: `${pane.path}${one.name}` })) };
  return (await api("POST", "/v0.10/delete", document_)).task_id;
}

export const downloadAddress = (pane, entry) => `${operation(pane.endpoint, "file")}?path=${encodePath(pane.path + entry.name)}`;

/** The address of a zip archive of folders and files. */
export const archiveAddress = (pane, entries) => `${operation(pane.endpoint, "archive")}?path=${encodePath(pane.path)}${entries.map((entry) => `&name=${encodePath(entry.name)}`).join("")}`;

/** One file as it is; a folder, or several entries, as one zip archive. */
export function download(pane, entries) {
  const [entry] = entries;
  const href = entries.length === 1 && !entry.folder ? downloadAddress(pane, entry) : archiveAddress(pane, entries);
  const link = el("a", { href, download: true });
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

/** What a mirror would delete: a comparison of the folders, as far as COMPARED listings go. more: there may be more. */
async function extras(source, target, folders, signal) {
  const found = { files: [], folders: [], more: false };
  // extra: the folder is at the destination only, and goes with all that is in it.
  const todo = folders.map((one) => ({ inner: `${one.name}/`, extra: false }));
  for (let listed = 0; todo.length; listed += 1) {
    if (listed >= COMPARED) { found.more = true; break; }
    const { inner, extra } = todo.shift();
    const there = await list(target.endpoint, target.path + inner, signal, () => {}).catch((error) => { if (error.status === 404) return null; throw error; });
    if (!there) continue;
    const here = extra ? { entries: [] } : await list(source.endpoint, source.path + inner, signal, () => {});
    found.more ||= Boolean(there.incomplete);
    const known = new Map(here.entries.map((one) => [one.name, one]));
    for (const one of there.entries) {
      const gone = !known.has(one.name);
      if (gone) found[one.folder ? "folders" : "files"].push(`${target.path}${inner}${one.name}${one.folder ? "/" : ""}`);
      if (one.folder && (gone || known.get(one.name).folder)) todo.push({ inner: `${inner}${one.name}/`, extra: gone });
    }
  }
  return found;
}

/** Files and folders in words. */
function counted({ files, folders }) {
  const words = [];
  if (files.length || !folders.length) words.push(tn("{n} file", "{n} files", files.length, { n: count(files.length) }));
  if (folders.length) words.push(tn("{n} folder", "{n} folders", folders.length, { n: count(folders.length) }));
  return words.length > 1 ? t("{a} and {b}", { a: words[0], b: words[1] }) : words[0];
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
  const paths = [...found.folders, ...found.files].sort();
  const nothing = !paths.length && !found.more;
  const title = t("Mirror to {name}?", { name: plainName(target.endpoint.name) });
  if (nothing) return confirmDialog({ title, text: t("Nothing would be deleted."), act: t("Copy") });
  const say = found.more ? t("To be deleted: at least {what}. The folders are too many to compare all.", { what: counted(found) }) : t("To be deleted: {what}.", { what: counted(found) });
  const shown = el("ul", { class: "names" }, ...paths.slice(0, 100).map((path) => el("li", {}, nameOf(path))), paths.length > 100 && el("li", {}, t("and {n} more", { n: count(paths.length - 100) })));
  return confirmDialog({ title, text: el("span", {}, say, shown), act: t("Copy and delete"), danger: true, must: word });
}

/** Ask what to do with files that exist already: resolves to "replace", "skip" or "". */
export function askConflict(names) {
  return new Promise((answer) => {
    let chosen = "";
    const choose = (value) => () => { chosen = value; shown.close(); };
    const shown = openDialog(tn("{n} file is there already", "{n} files are there already", names.length, { n: count(names.length) }), el("ul", { class: "names" }, ...names.slice(0, 50).map((name) => el("li", {}, nameOf(name)))),
      el("p", { class: "actions" }, el("button", { type: "button", on: { click: choose("skip") } }, t("Skip these")), el("button", { type: "button", class: "main", on: { click: choose("replace") } }, t("Replace these"))));
    shown.addEventListener("close", () => answer(chosen));
  });
}

export { newId };
