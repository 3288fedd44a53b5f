// The Transfer page: two panes, what is copied between them, and the address that says where they are.
import { all, menuParts, refresh, register, run, setSubject } from "./actions.js";
import { api, firstLine } from "./api.js";
import { confirmDialog, toast } from "./dialogs.js";
import { Dock } from "./dock.js";
import { el, icon, nameOf, plainName, wait } from "./dom.js";
import { encodePath, list, operation } from "./entries.js";
import { archiveAddress, askConflict, confirmMirror, copyPaths, download, makeFolder, newId, placeOf, preview, remove, rename, report, share } from "./file-dialogs.js";
import { count, duration, octets } from "./format.js";
import { closeMenu, openMenu } from "./menu.js";
import { Pane } from "./pane.js";
import { upload } from "./uploads.js";
import { t, tn } from "./words.js";

const data = JSON.parse(document.getElementById("transfer-data").textContent);
const form = document.getElementById("transfer-form");
const [SUBMITTED, MOST_REMEMBERED] = ["transfer-submitted", 50];
let last = null;
/** The pane whose selection is being submitted, and the one from which rows are dragged. */
let busy = null;
let dragged = null;

const host = {
  changed(pane, remember) {
    if (remember) writeAddress(true);
    buttons();
  },
  focused(pane) {
    if (last === pane) return;
    last = pane;
    for (const one of panes) one.root.classList.toggle("here", one === pane);
    refresh();
  },
  opened: (pane, entry) => preview(pane, entry),
  address: (pane, path) => addressOf(panes.map((one) => (one === pane ? { side: one.side, endpoint: one.endpoint, path } : one))),
  dragged(pane) { dragged = pane; },
  menu: (pane, place, inFolder) => openMenu(pane.root.ariaLabel, menuParts(inFolder ? ["folder", "page"] : ["entry", "selection", "folder"], pane), place, pane.table),
  /** Whether a drop is taken; into: the folder whose row is under the pointer, or null. */
  takes(pane, event, into) {
    if (!pane.ready || (!into && pane.writable === false)) return false;
    if (!isOfOurs(event)) return event.dataTransfer.types.includes("Files");
    return into ? dragged !== pane || !pane.selected.has(into) : dragged !== pane;
  },
  dropped(pane, event, into) {
    if (!host.takes(pane, event, into)) return;
    event.preventDefault();
    const path = into ? `${pane.path}${into.name}/` : pane.path;
    if (!isOfOurs(event)) tried(uploadAll)(pane, filesOf(event.dataTransfer), path);
    else dropOn(dragged, pane, into && path);
  },
  tab(pane) {
    const there = pane === panes[0] && panes[1].ready;
    if (there) panes[1].table.focus();
    return there;
  },
};

/** Whether rows of this page are dragged. */
const isOfOurs = (event) => dragged !== null && event.dataTransfer.types.includes("application/x-waybill");

const panes = [...document.querySelectorAll(".pane")].map((root) => new Pane(root, host));
const other = (pane) => panes[pane === panes[0] ? 1 : 0];
const here = () => last ?? panes[0];
const dock = new Dock(document.getElementById("dock"), () => panes.forEach((pane) => pane.ready && !pane.entries.length && pane.reload()), () => panes.forEach(listWhatFailed));

/** The service is reached again. The first requests after a loss may still fail. */
async function listWhatFailed(pane) {
  for (let tries = 0; tries < 3 && pane.endpoint && !pane.listing; tries += 1) {
    if (tries) await wait(3000);
    await pane.reload();
  }
}

// ---- the address of the page

function addressOf(sides) {
  const query = new URLSearchParams();
  for (const one of sides) {
    if (!one.endpoint) continue;
    query.set(`${one.side}_id`, one.endpoint.id);
    if (one.path) query.set(`${one.side}_path`, one.path.toWellFormed?.() ?? one.path);
  }
  return `/transfer${query.size === 0 ? "" : `?${query}`}`;
}

function writeAddress(push) {
  const address = addressOf(panes);
  if (address === location.pathname + location.search) return;
  history[push && !starting ? "pushState" : "replaceState"]({ sides: panes.map((one) => ({ endpoint: one.endpoint, path: one.path })) }, "", address);
}

addEventListener("popstate", (event) => {
  (event.state?.sides ?? data.panes).forEach((side, at) => {
    const pane = panes[at];
    if (side.endpoint && (side.endpoint.id !== pane.endpoint?.id || side.path !== pane.path)) pane.go(side.endpoint, side.path, { remember: false });
  });
});

// ---- what can be done

function whyNot(pane, target = other(pane)) {
  if (busy) return t("The transfer is being submitted.");
  if (!pane.ready) return t("Choose an endpoint and a folder on this side.");
  if (!pane.selected.size) return t("Select what is to be copied.");
  if (!target.ready) return t("Choose an endpoint and a folder on the other side.");
  if (target.writable === false) return t("You may only read the folder on the other side.");
  if (target.endpoint.id !== pane.endpoint.id) return true;
  if (target.path === pane.path) return t("Both sides show the same folder.");
  return pane.entries.some((one) => one.folder && target.path.startsWith(`${pane.path}${one.name}/`)) ? t("A folder cannot be copied into itself.") : true;
}

function buttons() {
  for (const pane of panes) {
    const target = other(pane);
    const name = target.endpoint?.name;
    const arrow = pane === panes[0] ? "arrow-right" : "arrow-left";
    // The name is isolated from the words around it, wherever it stands in the language of the page.
    const [before, after] = t("Copy to {name}", { name: "\0" }).split("\0");
    const words = busy === pane ? [t("Submitting…")] : name ? [before, nameOf(name), after] : [t("Copy to the other side")];
    const what = el("span", { class: "what" }, ...words);
    pane.copy.ariaBusy = busy === pane ? "true" : null;
    if (busy === pane) pane.copy.replaceChildren(el("span", { class: "turns", "aria-hidden": "true" }), what);
    else pane.copy.replaceChildren(...(pane === panes[0] ? [what, icon(arrow, 18)] : [icon(arrow, 18), what]));
  }
  refresh();
}

const first = (pane) => pane.selected.values().next().value;
const one = (pane) => (pane.selected.size === 1 ? first(pane) : pane.selected.size ? null : pane.shown[pane.now]);
const several = (pane) => (pane.selected.size ? pane.entries : [pane.shown[pane.now]].filter(Boolean));
const isReady = (pane) => pane.ready || t("Choose an endpoint and a folder first.");
const hasOne = (pane) => (pane.ready && one(pane) ? true : t("Select one entry first."));
const hasSome = (pane) => (pane.ready && (pane.selected.size || pane.shown[pane.now]) ? true : t("Select something first."));
/** Web servers take addresses of 8,000 octets; each name of a selection is in that of its archive. */
const LONGEST_ADDRESS = 7500;
function canDownload(pane) {
  const able = hasSome(pane);
  if (able !== true) return able;
  return (pane.selected.size < LONGEST_ADDRESS / 7 && archiveAddress(pane, several(pane)).length <= LONGEST_ADDRESS) || t("These are too many names for one download. Select their folder, or copy them with a transfer.");
}
/** The rights on a shared folder are known before anything is tried. */
const writes = (able) => (pane) => (pane.ready && pane.writable === false ? t("You may only read this folder.") : able(pane));
/** What is shared: the selected folder, or that of the pane. */
const sharedPath = (pane) => (pane.selected.size ? `${pane.path}${first(pane).name}/` : pane.path);
function canShare(pane) {
  if (!pane.ready) return isReady(pane);
  if (pane.endpoint.shareable === false) return t("You may not share folders of this endpoint.");
  return pane.selected.size > 1 || (pane.selected.size && !first(pane).folder) ? t("Select one folder first.") : true;
}
const tried = (act) => (...given) => Promise.resolve(act(...given)).catch(report);
const group = t("Transfer");
const inListing = { group: t("In a listing"), within: ".listing:focus" };

setSubject((element) => panes.find((pane) => pane.root.contains(element)) ?? here());
// Each with its part of the menu. bar: its place in the bar of a pane: always there, or while something is selected.
for (const action of [
  { name: "open", text: t("Open"), icon: "folder-open", shortcut: "Enter", menu: "entry", bar: "choosing", ...inListing, enabled: hasOne, run: (pane) => pane.open(pane.shown.indexOf(one(pane))) },
  { name: "copy", text: t("Copy to the other side"), icon: "transfer", shortcut: "F5", menu: "entry", group, enabled: (pane) => whyNot(pane), run: (pane) => copy(pane), hint: (pane) => (other(pane).endpoint ? t("Copy to {name}", { name: plainName(other(pane).endpoint.name) }) : t("Copy to the other side")) },
  { name: "download", text: t("Download"), icon: "download", shortcut: "Alt+d", menu: "entry", bar: "choosing", group, enabled: canDownload, run: (pane) => download(pane, several(pane)) },
  { name: "share", text: t("Share"), icon: "share", shortcut: "Alt+h", menu: "entry", bar: "choosing", group, enabled: canShare, run: tried((pane) => share(pane, sharedPath(pane))) },
  { name: "rename", text: t("Rename"), icon: "edit", shortcut: "F2", menu: "entry", bar: "choosing", group, enabled: writes(hasOne), run: tried((pane) => rename(pane, one(pane))) },
  { name: "delete", text: t("Delete"), icon: "trash", shortcut: "Delete", menu: "entry", bar: "choosing", group, enabled: writes(hasSome), within: ".pane", run: tried(removeSelected) },
  { name: "copy-path", text: t("Copy path"), icon: "copy", shortcut: "Alt+c", menu: "entry", bar: "choosing", group, enabled: hasSome, run: tried((pane) => copyPaths(several(pane).map((entry) => pane.path + entry.name))) },
  { name: "toggle", text: t("Select or deselect"), icon: "check", shortcut: " ", menu: "selection", ...inListing, enabled: hasSome, run: (pane) => pane.toggleCurrent() },
  { name: "select-all", text: t("Select all"), icon: "select-all", shortcut: "Ctrl+a", menu: "selection", ...inListing, enabled: isReady, run: (pane) => pane.selectAll() },
  { name: "invert", text: t("Invert the selection"), icon: "invert", shortcut: "*", menu: "selection", bar: "choosing", ...inListing, enabled: isReady, run: (pane) => pane.invert() },
  { name: "select-none", text: t("Clear the selection"), icon: "close", shortcut: "Escape", menu: "selection", bar: "choosing", ...inListing, enabled: (pane) => pane.selected.size > 0 || t("Nothing is selected."), run: (pane) => pane.selectNone() },
  { name: "new-folder", text: t("New folder"), icon: "folder-plus", shortcut: "F7", menu: "folder", bar: "always", group, enabled: writes(isReady), hint: (pane) => t("New folder in {place}", { place: placeOf(pane) }), run: tried((pane) => makeFolder(pane)) },
  { name: "upload", text: t("Upload"), icon: "upload", shortcut: "Alt+u", menu: "folder", bar: "always", group, enabled: writes(isReady), hint: (pane) => t("Upload to {place}", { place: placeOf(pane) }), run: (pane) => { last = pane; document.getElementById("upload-files").click(); } },
  { name: "upload-folder", text: t("Upload a folder"), icon: "folder-upload", shortcut: "Shift+F7", menu: "folder", bar: "always", group, enabled: writes(isReady), hint: (pane) => t("Upload a folder to {place}", { place: placeOf(pane) }), run: (pane) => { last = pane; document.getElementById("upload-folder").click(); } },
  { name: "parent", text: t("Go to the folder above"), icon: "arrow-up", shortcut: ["Backspace", "Alt+ArrowUp"], menu: "folder", group, within: ".pane", enabled: isReady, run: (pane) => pane.up() },
  { name: "reload", text: t("List again"), icon: "refresh", shortcut: "Alt+r", menu: "folder", group, enabled: (pane) => Boolean(pane.endpoint) || isReady(pane), run: (pane) => pane.reload() },
  { name: "edit-path", text: t("Edit the path"), icon: "edit", shortcut: "Alt+l", menu: "folder", group, run: (pane) => pane.editPath() },
  { name: "bookmark", text: t("Bookmark this folder"), icon: "bookmark", shortcut: "Alt+b", menu: "folder", group, enabled: isReady, run: bookmark },
  { name: "swap", text: t("Swap sides"), icon: "swap", shortcut: "Alt+s", menu: "page", group, run: swap },
  { name: "options", text: t("Options"), icon: "settings", shortcut: "Alt+o", menu: "page", group, run: () => { const box = document.getElementById("options"); box.open = !box.open; box.querySelector("summary").focus(); } },
  { name: "menu", text: t("All actions"), icon: "more", shortcut: "Shift+F10", bar: "always", ...inListing, run: (pane) => pane.menuAtCurrent() },
]) register(action);
register({ name: "other-listing", text: t("To the other listing"), shortcut: "Tab", ...inListing, enabled: () => false, run: () => {} });

/** The bar of each pane: its actions from the registry. */
for (const pane of panes) {
  const made = all().filter((action) => action.bar).map(({ name, text, icon: picture, bar }) => el("button", { type: "button", class: `quiet tool ${bar}`, "data-action": name, "aria-label": text }, icon(picture, 18), el("span", { class: "word" }, text)));
  pane.root.querySelector(".tools").append(...made);
  const more = made.at(-1);
  more.ariaHasPopup = "menu";
  // The menu of a button is below it; a second press closes it.
  more.addEventListener("pointerdown", () => closeMenu());
  more.addEventListener("click", (event) => {
    event.stopPropagation();
    const { left, bottom } = more.getBoundingClientRect();
    host.menu(pane, { x: left, y: bottom + 4 }, !pane.selected.size);
  });
}

async function removeSelected(pane) {
  const id = await remove(pane, several(pane));
  if (!id) return;
  toast(t("The deletion was accepted."), { tone: "good", link: { href: `/activity/${id}`, text: t("Look at it") } });
  dock.look();
}

function swap() {
  const [a, b] = panes.map((pane) => ({ endpoint: pane.endpoint, path: pane.path }));
  [b, a].forEach((side, at) => side.endpoint ? panes[at].go(side.endpoint, side.path) : clear(panes[at]));
}

function clear(pane) {
  Object.assign(pane, { endpoint: null, path: "" });
  pane.empty();
  pane.picker.show(null);
  pane.drawPath();
  begin(pane);
  buttons();
}

async function bookmark(pane) {
  try {
    await api("POST", "/v0.10/bookmark", { name: `${pane.endpoint.name} ${pane.path}`.slice(0, 128), endpoint_id: pane.endpoint.id, path: pane.path });
    toast(t("Bookmarked."), { tone: "good", seconds: 3 });
  } catch (error) {
    report(error);
  }
}

// ---- options

const value = (name) => form.elements[name];

function summary() {
  const parts = Object.entries(data.summary).filter(([name]) => value(name).checked).map(([, words]) => words);
  const sync = data.choices[value("sync_level").value];
  const days = data.deadlines[value("deadline_days").value];
  if (!value("verify_checksum").checked) parts.unshift(t("no checksums"));
  document.getElementById("options-summary").textContent = [...parts, sync, days].filter(Boolean).join(" · ");
}

function options() {
  const asked = Object.fromEntries(Object.keys(data.summary).map((name) => [name, value(name).checked]));
  if (value("sync_level").value) asked.sync_level = Number(value("sync_level").value);
  const confirm = value("confirm_deletion_above").value;
  if (asked.delete_destination_extra && confirm) asked.confirm_deletion_above = Number(confirm);
  if (value("bandwidth_limit").value) asked.bandwidth_limit = Math.round(value("bandwidth_limit").value * 1e6);
  asked.priority = value("priority").value;
  if (value("deadline_days").value !== "1") asked.deadline = new Date(Date.now() + value("deadline_days").value * 86400e3).toISOString();
  if (value("label").value.trim()) asked.label = value("label").value.trim();
  return asked;
}

form.addEventListener("change", summary);
form.addEventListener("submit", (event) => { event.preventDefault(); run("copy"); });

// ---- copy

/** What would go wrong at the destination, as sentences: names that are taken, no permission, no space. */
async function obstacles(source, target, octetsKnown, asked) {
  const found = await api("GET", `/v0.10/operation/endpoint/${target.endpoint.id}/destination?path=${encodePath(target.path)}`).catch((error) => ({ error }));
  const said = [];
  if (found.error?.status === 403) said.push(firstLine(found.error.message));
  if (found.writable === false) said.push(t("The server says that you may not write to {path}.", { path: plainName(target.path) }));
  if (found.free !== undefined && found.free !== null && found.free < octetsKnown) said.push(t("{size} are selected, and {free} are free there.", { size: octets(octetsKnown), free: octets(found.free) }));
  const names = new Map((target.listing ?? []).map((entry) => [entry.name, entry]));
  const taken = source.entries.filter((entry) => names.has(entry.name));
  const other = taken.filter((entry) => names.get(entry.name).folder !== entry.folder);
  if (other.length) said.push(t("{name} is a folder on one side and a file on the other.", { name: plainName(other[0].name) }));
  else if (taken.length && asked.sync_level === undefined && !asked.delete_destination_extra) said.push(tn("{name} exists there already. Its files are replaced.", "{n} of these names exist there already, {name} for one. Their files are replaced.", taken.length, { n: count(taken.length), name: plainName(taken[0].name) }));
  return said;
}

/** Before the submission: the destination, the same task, a credential that ends too early. Resolves to whether to go on. */
async function preflight(source, target, items, mark, asked) {
  const earlier = remembered().find((one) => one.mark === mark);
  if (earlier) {
    const task = await api("GET", `/v0.10/task/${earlier.task}`, undefined, { params: { fields: "status" } }).catch(() => null);
    if (task?.status === "ACTIVE") {
      const link = el("a", { href: `/activity/${earlier.task}` }, t("Look at it"));
      const yes = await confirmDialog({ title: t("The same transfer is running already"), text: el("span", {}, t("It copies the same files to the same folder."), " ", link), act: t("Submit it once more") });
      if (!yes) return false;
    }
  }
  const octetsKnown = source.entries.reduce((sum, one) => sum + (one.folder ? 0 : one.size), 0);
  const said = await obstacles(source, target, octetsKnown, asked);
  if (said.length && !(await confirmDialog({ title: t("Copy to {name}?", { name: plainName(target.endpoint.name) }), text: el("span", {}, ...said.flatMap((one) => [one, el("br")])), act: t("Copy all the same") }))) return false;
  const params = { source_endpoint: source.endpoint.id, destination_endpoint: target.endpoint.id, files: items.length, bytes: octetsKnown };
  const ends = await Promise.all([source, target].map((pane) => api("GET", `/v0.10/endpoint/${pane.endpoint.id}`, undefined, { params: { fields: "activated,expires_in" } }).catch(() => null)));
  const left = Math.min(...ends.filter((end) => end && end.expires_in >= 0).map((end) => end.expires_in));
  if (ends.some((end) => end && !end.activated)) {
    const pane = [source, target][ends.findIndex((end) => end && !end.activated)];
    toast(t("{name} is not activated.", { name: plainName(pane.endpoint.name) }), { tone: "bad", link: { href: `/endpoints/${pane.endpoint.id}/activate`, text: t("Activate this endpoint") } });
    return false;
  }
  if (!Number.isFinite(left)) return true;
  const forecast = await api("GET", "/v0.10/forecast", undefined, { params }).catch(() => null);
  if (left > Math.max(600, forecast?.seconds ?? 0)) return true;
  return confirmDialog({ title: t("A credential ends soon"), text: t("It is valid for {time}. The transfer may have to wait for a new one.", { time: duration(left) }), act: t("Submit it") });
}

/** A number in place of the names: the next user of this browser must not read them in its storage. */
function markOf(text) {
  let sum = text.length;
  for (let at = 0; at < text.length; at += 1) sum = (Math.imul(31, sum) + text.charCodeAt(at)) | 0;
  return sum;
}

const remembered = () => JSON.parse(localStorage.getItem(SUBMITTED) ?? "[]");

/** Copy what is dragged to a folder: that of the pane, or the one below it whose path is given. */
async function dropOn(source, pane, path) {
  const target = path ? { endpoint: pane.endpoint, path, ready: true } : pane;
  const why = whyNot(source, target);
  if (why !== true) return toast(why, { tone: "bad" });
  if (path) target.listing = (await list(pane.endpoint, path).catch(() => ({}))).entries;
  await copy(source, target);
}

async function copy(source, target = other(source)) {
  if (whyNot(source, target) !== true) return;
  busy = source;
  buttons();
  // With 100,000 entries what follows takes seconds: the page says first that it is at it.
  await wait(20);
  const entries = source.entries;
  const items = entries.map((entry) => ({ DATA_TYPE: "transfer_item", source_path: source.path + entry.name, destination_path: target.path + entry.name, recursive: entry.folder }));
  const asked = options();
  try {
    if (asked.delete_destination_extra && !(await confirmMirror(source, target, entries, data.typed))) return;
    const mark = markOf(JSON.stringify([source.endpoint.id, target.endpoint.id, items.map((item) => [item.source_path, item.destination_path])]));
    if (!(await preflight(source, target, items, mark, asked))) return;
    const task = await submit({ DATA_TYPE: "transfer", source_endpoint: source.endpoint.id, destination_endpoint: target.endpoint.id, DATA: items, ...asked });
    localStorage.setItem(SUBMITTED, JSON.stringify([{ mark, task: task.task_id }, ...remembered()].slice(0, MOST_REMEMBERED)));
    toast(accepted(asked.label, entries), { tone: "good", link: { href: `/activity/${task.task_id}`, text: t("Look at the task") } });
    if (task.warning) toast(task.warning, { tone: "bad" });
    source.selectNone();
    // The user chooses a mirror for each copy anew.
    value("delete_destination_extra").checked = false;
    summary();
    dock.look();
  } catch (error) {
    if (error.name !== "AbortError") report(error);
  } finally {
    busy = null;
    buttons();
  }
}

function accepted(label, entries) {
  if (label) return t("Task “{label}” accepted.", { label });
  return entries.length === 1 ? t("“{name}” is on its way.", { name: plainName(entries[0].name) }) : t("{n} entries are on their way.", { n: count(entries.length) });
}

/** Submit once, and resolve to the answer: where it is lost, the same submission_id finds the same task. */
async function submit(transfer) {
  transfer.submission_id = await newId();
  try {
    return await api("POST", "/v0.10/transfer", transfer);
  } catch (error) {
    if (error.status) throw error;
    return await api("POST", "/v0.10/transfer", transfer);
  }
}

// ---- uploads

/** Files and folders of one upload at most. */
const MOST_UPLOADED = 1000;

/** What is uploaded at once: `files`, each with the folder below the place ("" or "run1/raw/"), and all those folders. */
class Bundle {
  files = [];
  folders = new Set();

  add(file, folder) {
    for (let end = folder.indexOf("/"); end >= 0; end = folder.indexOf("/", end + 1)) this.folders.add(folder.slice(0, end + 1));
    if (file) this.files.push({ file, folder });
    if (this.files.length + this.folders.size > MOST_UPLOADED) throw new Error(t("These are more than {n} files and folders. Move them with a transfer.", { n: count(MOST_UPLOADED) }));
    return this;
  }
}

/** The files of a drop. It can be read only now: what is dropped is asked for before the first wait. */
function filesOf(transfer) {
  const entries = [...transfer.items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry() ?? item.getAsFile());
  return walk(new Bundle(), entries, "");
}

/** The files of a form. folderOf: the folder of a file. */
async function bundleOf(files, folderOf) {
  return [...files].reduce((bundle, file) => bundle.add(file, folderOf(file)), new Bundle());
}

async function walk(bundle, entries, folder) {
  for (const entry of entries) {
    if (!entry.isDirectory) bundle.add(entry.isFile ? await new Promise((done, fail) => entry.file(done, fail)) : entry, folder);
    else {
      const inside = `${folder}${entry.name}/`;
      bundle.add(null, inside);
      const reader = entry.createReader();
      // A reader gives some entries at a time, and none at the end.
      for (let some; (some = await new Promise((done, fail) => reader.readEntries(done, fail))).length; ) await walk(bundle, some, inside);
    }
  }
  return bundle;
}

/** Upload what a promise of a bundle resolves to. */
async function uploadAll(pane, bundle, path = pane.path) {
  const { endpoint } = pane;
  const isShown = () => pane.endpoint === endpoint && pane.path === path;
  const { files, folders } = await bundle;
  const large = files.find(({ file }) => file.size > data.upload);
  if (large) toast(t("{name} is larger than {size}, the most that is uploaded here.", { name: plainName(large.file.name), size: octets(data.upload) }), { tone: "bad" });
  const listed = new Map(isShown() && pane.listing ? [["", pane.listing]] : []);
  /** The entries of a folder below the place; where it cannot be listed none, and the server replaces nothing. */
  const entriesOf = async (folder) => {
    if (!listed.has(folder)) listed.set(folder, (await list(endpoint, path + folder).catch(() => ({}))).entries ?? []);
    return listed.get(folder);
  };
  for (const folder of [...folders].sort()) if (await ensureFolder(endpoint, path, folder, entriesOf)) listed.set(folder, []);
  if (folders.size && isShown()) pane.load("", true);
  const known = new Set();
  for (const folder of new Set(files.map((one) => one.folder))) for (const entry of await entriesOf(folder)) known.add(folder + entry.name);
  const isKnown = ({ file, folder }) => known.has(folder + file.name);
  const clash = files.filter(isKnown);
  const decision = clash.length ? await askConflict(clash.map(({ file, folder }) => folder + file.name)) : "replace";
  for (const one of files) {
    if (one.file.size > data.upload || (isKnown(one) && decision !== "replace")) continue;
    upload(endpoint, path + one.folder, one.file, isKnown(one), (error) => {
      if (!error && !one.folder && isShown()) pane.load(one.file.name, true);
    });
  }
}

/** Make a folder of an upload; whether it was not there. */
async function ensureFolder(endpoint, path, folder, entriesOf) {
  const above = folder.slice(0, folder.lastIndexOf("/", folder.length - 2) + 1);
  const name = folder.slice(above.length, -1);
  if ((await entriesOf(above)).some((entry) => entry.name === name && entry.folder)) return false;
  try {
    await api("POST", operation(endpoint, "mkdir"), { path: `${path}${above}${name}` });
    return true;
  } catch (error) {
    if (error.code?.endsWith(".Exists")) return false;
    throw error;
  }
}

document.getElementById("upload-files").addEventListener("change", (event) => {
  tried(uploadAll)(here(), bundleOf(event.target.files, () => ""));
  event.target.value = "";
});

document.getElementById("upload-folder").addEventListener("change", (event) => {
  tried(uploadAll)(here(), bundleOf(event.target.files, (file) => file.webkitRelativePath.slice(0, -file.name.length)));
  event.target.value = "";
});

// ---- the beginning

/** A pane without an endpoint: on a first visit the sample endpoints are offered. */
function begin(pane) {
  const picks = el("button", { type: "button", on: { click: () => pane.picker.input.focus() } }, icon("search", 18), t("Choose an endpoint"));
  const sample = data.sample && pane === panes[0] && el("button", { type: "button", class: "main", id: "try-sample", on: { click: tried(trySample) } }, icon("play", 18), t("Try it with sample data"));
  const text = sample ? t("Endpoints are the servers where your data is. To see how it works, copy a sample folder: one press, done in seconds.") : t("Endpoints are the servers where your data is.");
  pane.put("endpoint", pane === panes[0] ? t("Where is your data?") : t("Where shall it go?"), text, sample, picks);
}

/** Show the sample endpoints, and copy the sample folder from one to the other. */
async function trySample() {
  const { from, to, folder } = data.sample;
  await Promise.all([panes[0].go(from.endpoint, from.path), panes[1].go(to.endpoint, to.path)]);
  const entry = panes[0].shown.find((shown) => shown.name === folder);
  if (!entry) return;
  panes[0].selected = new Set([entry]);
  panes[0].redraw();
  await copy(panes[0]);
}

let starting = true;
data.panes.forEach((side, at) => {
  const pane = panes[at];
  if (side.problem) { pane.picker.show(side.endpoint); pane.fail({ message: side.problem, code: side.endpoint ? "" : "EndpointNotFound", status: side.endpoint ? 400 : 404 }); } else if (side.endpoint) pane.go(side.endpoint, side.path);
  else begin(pane);
});
starting = false;
summary();
buttons();
dock.look();
