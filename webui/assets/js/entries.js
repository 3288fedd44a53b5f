// The entries of a folder: read while they arrive, sorted, and filtered.
import { ApiError } from "./api.js";

const FIELDS = "name,type,size,last_modified,link_target";

/** The address of an operation on an endpoint. */
export const operation = (endpoint, name) => `/v0.10/operation/endpoint/${endpoint.id}/${name}`;

/** A path in an address: a lone surrogate stands for an octet that is not UTF-8. */
export function encodePath(path) {
  let made = "";
  for (const letter of path) {
    const code = letter.codePointAt(0);
    made += code >= 0xdc80 && code <= 0xdcff ? `%${(code - 0xdc00).toString(16)}` : encodeURIComponent(letter);
  }
  return made;
}

/** List a folder; `arrived(entries, path, isLast)` is called with each part. Raises ApiError, AbortError. */
export async function list(endpoint, path, signal, arrived = () => {}) {
  const answer = await ask(`${operation(endpoint, "listing")}?fields=${FIELDS}&path=${encodePath(path)}`, signal);
  if (!answer.ok) throw new ApiError(answer.status, await answer.json().catch(() => ({})));
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  const found = { path, writable: true, entries: [] };
  let text = "";
  let end = null;
  for (let done = false, value; !done;) {
    ({ done, value } = await reader.read().catch(lost));
    text += decoder.decode(value ?? new Uint8Array(), { stream: !done });
    const until = text.lastIndexOf("\n");
    if (until < 0) continue;
    // A line of JSON holds no line feed: all complete lines are parsed at once.
    const lines = JSON.parse(`[${text.slice(0, until).replaceAll("\n", ",")}]`);
    text = text.slice(until + 1);
    if (lines[0].DATA_TYPE === "listing") ({ path: found.path, writable: found.writable = true } = lines.shift());
    if (lines.length && lines.at(-1).DATA_TYPE !== "file") end = lines.pop();
    const fresh = lines.map(entryOf);
    for (const entry of fresh) found.entries.push(entry);
    arrived(fresh, found.path, end !== null);
  }
  if (end?.DATA_TYPE === "error") throw new ApiError(502, end);
  if (end?.total !== found.entries.length) throw new ApiError(0, {});
  found.incomplete = end.incomplete ?? "";
  return found;
}

const ask = (address, signal) => fetch(address, { headers: { Accept: "application/json" }, credentials: "same-origin", signal }).catch(lost);

function lost(error) {
  throw error.name === "AbortError" ? error : new ApiError(0, {});
}

function entryOf(row) {
  const isFolder = row.type === "dir";
  // The key sorts folders first, then names without regard to case.
  return { name: row.name, folder: isFolder, size: row.size, modified: row.last_modified ?? "", link: row.link_target !== null, key: row.name.toLowerCase() };
}

const COMPARE = {
  name: (a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0),
  size: (a, b) => a.size - b.size || COMPARE.name(a, b),
  modified: (a, b) => (a.modified < b.modified ? -1 : a.modified > b.modified ? 1 : COMPARE.name(a, b)),
};

/** The entries in order, folders first. */
export function sorted(entries, column, descending) {
  const compare = COMPARE[column];
  const folders = entries.filter((one) => one.folder).sort(compare);
  const others = entries.filter((one) => !one.folder).sort(compare);
  if (descending) [folders, others].forEach((part) => part.reverse());
  return folders.concat(others);
}

/** Two lists that are in order, as one. */
export function merged(one, two, column, descending) {
  const upwards = COMPARE[column];
  const compare = (a, b) => b.folder - a.folder || (descending ? upwards(b, a) : upwards(a, b));
  const made = [];
  let at = 0;
  for (const entry of two) {
    while (at < one.length && compare(one[at], entry) <= 0) made.push(one[at++]);
    made.push(entry);
  }
  while (at < one.length) made.push(one[at++]);
  return made;
}

/** The entries of a folder that was listed again: one that is as before is the same object, so that its row stays. */
export function renewed(before, entries) {
  const known = new Map(before.map((one) => [one.name, one]));
  const isSame = (one, two) => one.folder === two.folder && one.size === two.size && one.modified === two.modified && one.link === two.link;
  return entries.map((entry) => {
    const old = known.get(entry.name);
    if (!old || !isSame(old, entry)) return entry;
    known.delete(entry.name);
    return old;
  });
}

/** Those that are shown. */
export function filtered(entries, text, hidden) {
  const wanted = text.toLowerCase();
  if (!wanted && hidden) return entries;
  return entries.filter((one) => (hidden || !one.name.startsWith(".")) && one.key.includes(wanted));
}

/** The folder above, or "" for a root. */
export function above(path) {
  const inner = path.replace(/\/+$/, "");
  if (!inner || inner === "/~") return "";
  return inner.slice(0, inner.lastIndexOf("/") + 1) || "/";
}

/** The folders on the way to a path: [name, path]. */
export function steps(path) {
  const names = path.split("/").filter(Boolean);
  const found = names[0] === "~" ? [] : [["/", "/"]];
  names.forEach((name, at) => found.push([name, `/${names.slice(0, at + 1).join("/")}/`]));
  return found;
}
