// The rows of a listing that are seen, and a few beyond; the rest is two tall empty rows. A row stays the same element as long
// as it is seen: the browser sends a double click, and goes on with a drag, only to an element that stays.
import { el, icon, nameOf, plainName } from "./dom.js";
import { octets, when } from "./format.js";
import { t } from "./words.js";

/** Pixels of a row, as in the stylesheet. */
export const ROW = 32;

export class Rows {
  constructor(body, side) {
    Object.assign(this, { body, side, made: new Map(), above: spacer(), below: spacer() });
    this.clear();
  }

  clear() {
    this.made.clear();
    this.body.replaceChildren(this.above, this.below);
    stretch(this.above, 0);
    stretch(this.below, 0);
  }

  /** Show the entries from first to last - 1. */
  draw(shown, first, last, selected, now) {
    const before = this.made;
    this.made = new Map();
    for (let at = first; at < last; at += 1) {
      const row = before.get(shown[at]) ?? made(shown[at]);
      before.delete(shown[at]);
      row.id = `${this.side}-row-${at}`;
      row.dataset.at = at;
      row.ariaRowIndex = at + 2;
      this.made.set(shown[at], row);
    }
    for (const row of before.values()) row.remove();
    let previous = this.above;
    for (const row of this.made.values()) {
      if (previous.nextSibling !== row) previous.after(row);
      previous = row;
    }
    stretch(this.above, first);
    stretch(this.below, shown.length - last);
    this.mark(selected, shown[now]);
  }

  /** Show what is selected, and which row is the current one. */
  mark(selected, current) {
    for (const [entry, row] of this.made) {
      const isSelected = String(selected.has(entry));
      if (row.ariaSelected !== isSelected) row.ariaSelected = isSelected;
      row.classList.toggle("now", entry === current);
    }
  }

  /** Show the row that a drop would go into; null: none. */
  aim(entry) {
    for (const [one, row] of this.made) row.classList.toggle("into", one === entry);
  }
}

/** A row of each kind, which is copied: much faster than to make one. */
const patterns = Object.fromEntries(["folder", "symlink", "file"].map((kind) => [kind, el("tr", { draggable: "true" },
  el("td", { class: "tick" }, el("span")),
  el("td", {}, el("span", { class: kind === "folder" ? "entry folder" : "entry" }, icon(kind, 18), kind === "folder" && el("button", { type: "button", class: "icon-only open", tabindex: "-1" }, icon("chevron-right", 16)))),
  el("td", { class: "right size" }),
  el("td", { class: "right modified" }))]));

function made(entry) {
  const row = patterns[entry.folder ? "folder" : entry.link ? "symlink" : "file"].cloneNode(true);
  const [, name, size, modified] = row.children;
  const inner = name.firstChild;
  inner.firstChild.after(nameOf(entry.name));
  if (entry.name.length > 40) inner.title = plainName(entry.name);
  if (entry.folder) inner.lastChild.ariaLabel = t("Open {name}", { name: plainName(entry.name) });
  else size.textContent = octets(entry.size);
  if (entry.modified) modified.textContent = when(new Date(entry.modified.replace(" ", "T")));
  return row;
}

const spacer = () => el("tr", { class: "spacer", "aria-hidden": "true" }, el("td", { colspan: "4" }));

function stretch(row, rows) {
  row.hidden = rows === 0;
  row.firstChild.style.height = `${rows * ROW}px`;
}
