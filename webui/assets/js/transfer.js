// The Transfer page: two panes, what is copied between them, and the address that says where they are.
import { refresh, register, run } from "./actions.js";
import { api, firstLine } from "./api.js";
import { confirmDialog, toast } from "./dialogs.js";
import { Dock } from "./dock.js";
import { el, icon, nameOf, plainName } from "./dom.js";
import { encodePath } from "./entries.js";
import { askConflict, confirmMirror, download, makeFolder, newId, preview, remove, rename, report } from "./file-dialogs.js";
import { count, duration, octets } from "./format.js";
import { Pane } from "./pane.js";
import { upload } from "./uploads.js";
import { t } from "./words.js";

const data = JSON.parse(document.getElementById("transfer-data").textContent);
const form = document.getElementById("transfer-form");
const [SUBMITTED, MOST_REMEMBERED] = ["transfer-submitted", 50];
let last = null;
let busy = false;

const host = {
  changed(pane, remember) {
    if (remember) writeAddress(true);
    buttons();
  },
  focused(pane) { last = pane; refresh(); },
  opened: (pane, entry) => preview(pane, entry),
  copies: (pane) => copy(pane),
  bookmark: (pane) => bookmark(pane),
  address: (pane, path) => addressOf(panes.map((one) => (one === pane ? { side: one.side, endpoint: one.endpoint, path } : one))),
  takes: (pane, event) => {
    const { types } = event.dataTransfer;
    return pane.ready && (types.includes("Files") || (types.includes("application/x-waybill") && other(pane).entries.length > 0));
  },
  dropped(pane, event) {
    if (!host.takes(pane, event)) return;
    event.preventDefault();
    if (event.dataTransfer.files.length) uploadAll(pane, filesOf(event.dataTransfer));
    else if (event.dataTransfer.getData("application/x-waybill") !== pane.side) copy(other(pane));
  },
  tab(pane) {
    const there = pane === panes[0] && panes[1].ready;
    if (there) panes[1].table.focus();
    return there;
  },
};

const panes = [...document.querySelectorAll(".pane")].map((root) => new Pane(root, host));
const other = (pane) => panes[pane === panes[0] ? 1 : 0];
const here = () => last ?? panes[0];
const dock = new Dock(document.getElementById("dock"), data.states, () => panes.forEach((pane) => pane.ready && !pane.entries.length && pane.reload()));

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

function whyNot(pane) {
  const target = other(pane);
  if (busy) return t("The transfer is being submitted.");
  if (!pane.ready) return t("Choose an endpoint and a folder on this side.");
  if (!pane.entries.length) return t("Select what is to be copied.");
  if (!target.ready) return t("Choose an endpoint and a folder on the other side.");
  if (target.endpoint.id === pane.endpoint.id && target.path === pane.path) return t("Both sides show the same folder.");
  return true;
}

function buttons() {
  for (const pane of panes) {
    const target = other(pane);
    const why = whyNot(pane);
    const name = target.endpoint?.name;
    const arrow = pane === panes[0] ? "arrow-right" : "arrow-left";
    // The name is isolated from the words around it, wherever it stands in the language of the page.
    const [before, after] = t("Copy to {name}", { name: "\0" }).split("\0");
    const what = el("span", { class: "what" }, ...(name ? [before, nameOf(name), after] : [t("Copy to the other side")]));
    pane.copy.replaceChildren(...(pane === panes[0] ? [what, icon(arrow, 18)] : [icon(arrow, 18), what]));
    pane.copy.setAttribute("aria-disabled", String(why !== true));
    pane.copy.title = why === true ? `${t("Copy to {name}", { name: plainName(name ?? "") })} (F5)` : why;
  }
  refresh();
}

const one = () => (here().entries.length === 1 ? here().entries[0] : here().entries.length ? null : here().shown[here().now]);
const several = () => (here().entries.length ? here().entries : [here().shown[here().now]].filter(Boolean));
const isReady = () => here().ready || t("Choose an endpoint and a folder first.");
const hasOne = () => (here().ready && one() ? true : t("Select one entry first."));
const hasSome = () => (here().ready && several().length ? true : t("Select something first."));
const tried = (act) => (...given) => Promise.resolve(act(...given)).catch(report);
const group = t("Transfer");

register({ name: "copy", text: t("Copy to the other side"), shortcut: "F5", group, enabled: () => whyNot(here()), run: () => copy(here()) });
register({ name: "new-folder", text: t("New folder"), shortcut: "F7", group, enabled: isReady, run: tried(() => makeFolder(here())) });
register({ name: "rename", text: t("Rename"), shortcut: "F2", group, enabled: hasOne, run: tried(() => rename(here(), one())) });
register({ name: "delete", text: t("Delete"), shortcut: "Delete", group, enabled: hasSome, within: ".pane", run: tried(removeSelected) });
register({ name: "download", text: t("Download"), shortcut: "Alt+d", group, enabled: hasOne, run: () => !one().folder && download(here(), one()) });
register({ name: "upload", text: t("Upload"), shortcut: "Alt+u", group, enabled: isReady, run: () => document.getElementById("upload-files").click() });
register({ name: "swap", text: t("Swap sides"), shortcut: "Alt+s", group, run: swap });
register({ name: "parent", text: t("Go to the folder above"), shortcut: ["Alt+ArrowUp", "Backspace"], group, within: ".listing", enabled: isReady, run: () => here().up() });
register({ name: "edit-path", text: t("Edit the path"), shortcut: "Alt+l", group, run: () => here().editPath() });
register({ name: "options", text: t("Options"), shortcut: "Alt+o", group, run: () => { const box = document.getElementById("options"); box.open = !box.open; box.querySelector("summary").focus(); } });
for (const [key, text] of [["Enter", t("Open")], [" ", t("Select, or not any more")], ["Ctrl+a", t("Select all")], ["*", t("Invert the selection")], ["Tab", t("To the other listing")]]) {
  register({ name: `key ${key}`, text, shortcut: key, group: t("In a listing"), enabled: () => t("In a listing"), run: () => {} });
}

async function removeSelected() {
  const pane = here();
  const id = await remove(pane, several());
  if (!id) return;
  toast(t("The deletion was accepted."), { tone: "good", link: { href: `/activity/${id}`, text: t("Look at it") } });
  dock.look();
}

function swap() {
  const [a, b] = panes.map((pane) => ({ endpoint: pane.endpoint, path: pane.path }));
  [b, a].forEach((side, at) => side.endpoint ? panes[at].go(side.endpoint, side.path) : clear(panes[at]));
}

function clear(pane) {
  Object.assign(pane, { endpoint: null, path: "", listing: null, shown: [] });
  pane.picker.show(null);
  pane.drawPath();
  pane.body.replaceChildren();
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
  else if (taken.length && asked.sync_level === undefined && !asked.delete_destination_extra) said.push(t("{n} of these names exist there already, {name} for one. Their files are replaced.", { n: count(taken.length), name: plainName(taken[0].name) }));
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

async function copy(source) {
  if (whyNot(source) !== true) return;
  const target = other(source);
  const entries = source.entries;
  const items = entries.map((entry) => ({ DATA_TYPE: "transfer_item", source_path: source.path + entry.name, destination_path: target.path + entry.name, recursive: entry.folder }));
  const asked = options();
  busy = true;
  buttons();
  try {
    if (asked.delete_destination_extra && !(await confirmMirror(source, target, entries, data.typed))) return;
    const mark = markOf(JSON.stringify([source.endpoint.id, target.endpoint.id, items.map((item) => [item.source_path, item.destination_path])]));
    if (!(await preflight(source, target, items, mark, asked))) return;
    const task = await submit({ DATA_TYPE: "transfer", source_endpoint: source.endpoint.id, destination_endpoint: target.endpoint.id, DATA: items, ...asked });
    localStorage.setItem(SUBMITTED, JSON.stringify([{ mark, task: task.task_id }, ...remembered()].slice(0, MOST_REMEMBERED)));
    toast(accepted(asked.label, entries), { tone: "good", link: { href: `/activity/${task.task_id}`, text: t("Look at the task") } });
    if (task.warning) toast(task.warning, { tone: "bad" });
    source.selectNone();
    dock.look();
  } catch (error) {
    if (error.name !== "AbortError") report(error);
  } finally {
    busy = false;
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

/** The files of a drop; folders are left out, and said so. */
function filesOf(transfer) {
  const items = [...transfer.items].filter((item) => item.kind === "file");
  const folders = items.filter((item) => item.webkitGetAsEntry?.()?.isDirectory);
  if (folders.length) toast(t("Folders are not uploaded here. Move them with a transfer."));
  return items.filter((item) => !folders.includes(item)).map((item) => item.getAsFile()).filter(Boolean);
}

async function uploadAll(pane, files) {
  const large = files.filter((file) => file.size > data.upload);
  if (large.length) toast(t("{name} is larger than {size}, the most that is uploaded here.", { name: plainName(large[0].name), size: octets(data.upload) }), { tone: "bad" });
  const known = new Set((pane.listing ?? []).map((entry) => entry.name));
  const clash = files.filter((file) => known.has(file.name));
  const decision = clash.length ? await askConflict(clash.map((file) => file.name)) : "replace";
  const { endpoint, path } = pane;
  for (const file of files.filter((one) => one.size <= data.upload)) {
    if (known.has(file.name) && decision !== "replace") continue;
    upload(endpoint, path, file, known.has(file.name), (error) => {
      if (!error && pane.endpoint === endpoint && pane.path === path) pane.load(file.name, true);
    });
  }
}

document.getElementById("upload-files").addEventListener("change", (event) => {
  uploadAll(here(), [...event.target.files]);
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
