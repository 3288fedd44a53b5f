// One pane: an endpoint, a folder of it, its listing, and what is selected in it.
import { api, firstLine, signInAgain } from "./api.js";
import { above, filtered, list, merged, renewed, sorted, steps } from "./entries.js";
import { el, icon, nameOf } from "./dom.js";
import { count, duration, octets } from "./format.js";
import { onLongPress } from "./gestures.js";
import { Picker } from "./picker.js";
import { ROW, Rows } from "./rows.js";
import { signInHere } from "./session.js";
import { t, tn } from "./words.js";

/** Rows that are made above and below those that are seen. */
const BEYOND = 10;
/** Milliseconds: between two times that arriving rows are shown; and until a folder that is listed again gives way. */
const BETWEEN = 200;
const SOON = 600;

export class Pane {
  /** host: changed(pane), opened(pane, entry), dragged(pane), takes(pane, event, into), dropped(pane, event, into), menu(pane, place, inFolder). */
  constructor(root, host) {
    this.root = root;
    this.host = host;
    this.side = root.dataset.side;
    this.endpoint = null;
    this.path = "";
    this.listing = null;
    this.incomplete = "";
    this.shown = [];
    this.selected = new Set();
    this.now = 0;
    this.anchor = 0;
    this.order = JSON.parse(localStorage.getItem("transfer-order") ?? "null") ?? { column: "name", descending: false };
    for (const [name, css] of Object.entries({ table: "table", body: "tbody", scroller: ".scroller", state: ".state", said: ".said", crumbs: ".path-bar ol", bar: ".path-bar", edit: ".path-edit", filter: ".filter-text", hidden: ".dotfiles", all: ".all", copy: ".copy", lease: ".lease" })) {
      this[name] = root.querySelector(css);
    }
    this.rows = new Rows(this.body, this.side);
    this.hidden.checked = localStorage.getItem("transfer-hidden") === "yes";
    this.picker = new Picker(root, (endpoint, path, error) => (error ? this.fail(error) : this.go(endpoint, path)));
    this.listen();
  }

  get entries() {
    return [...this.selected];
  }

  get ready() {
    return Boolean(this.endpoint && this.listing);
  }

  listen() {
    const { table, root } = this;
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(this.scroller);
    this.filter.addEventListener("input", () => this.arrange());
    this.filter.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") table.focus();
      else if (event.key === "Escape") { this.filter.value = ""; this.arrange(); table.focus(); }
      else return;
      event.preventDefault();
    });
    this.hidden.addEventListener("change", () => { localStorage.setItem("transfer-hidden", this.hidden.checked ? "yes" : "no"); this.arrange(); });
    this.all.addEventListener("change", () => (this.all.checked ? this.selectAll() : this.selectNone()));
    table.addEventListener("focus", () => this.host.focused(this));
    table.addEventListener("mousedown", (event) => event.detail > 1 && event.preventDefault());
    table.addEventListener("click", (event) => this.onClick(event));
    table.addEventListener("dblclick", (event) => event.target.closest(".tick, .open") || this.open(this.rowAt(event)));
    this.scroller.addEventListener("contextmenu", (event) => this.onMenu(event));
    onLongPress(this.body, (event) => this.onMenu(event));
    for (const kind of ["pointermove", "pointerdown"]) this.scroller.addEventListener(kind, (event) => { this.pointer = event.clientY; }, { passive: true });
    table.addEventListener("keydown", (event) => this.onKey(event));
    // A press of a button gives it the focus in some browsers only.
    for (const kind of ["focusin", "pointerdown"]) root.addEventListener(kind, () => this.host.focused(this));
    root.querySelector("thead").addEventListener("click", (event) => {
      const column = event.target.closest("[data-sort]")?.dataset.sort;
      if (column && event.target.closest("button")) this.sort(column);
    });
    root.addEventListener("click", (event) => {
      const act = event.target.closest("[data-pane]")?.dataset.pane;
      if (act) this[act]();
    });
    this.crumbs.addEventListener("click", (event) => {
      const path = event.target.closest("a")?.dataset.path;
      if (path && !event.ctrlKey && !event.metaKey) { event.preventDefault(); this.go(this.endpoint, path); }
    });
    this.edit.addEventListener("keydown", (event) => this.onPathKey(event));
    this.edit.addEventListener("input", () => this.complete());
    this.edit.addEventListener("blur", () => this.endEdit());
    root.addEventListener("dragover", (event) => this.onDragOver(event));
    root.addEventListener("dragleave", (event) => root.contains(event.relatedTarget) || this.aim(false));
    root.addEventListener("drop", (event) => { this.aim(false); this.host.dropped(this, event, this.folderAt(event)); });
    table.addEventListener("dragstart", (event) => this.onDrag(event));
    table.addEventListener("dragend", () => this.host.dragged(null));
  }

  // ---- where it is

  /** Go to a folder of an endpoint; path "": where the endpoint begins. */
  async go(endpoint, path, { remember = true, focus = "" } = {}) {
    this.endpoint = endpoint;
    this.path = path && !path.endsWith("/") ? `${path}/` : path;
    this.listing = null;
    this.writable = true;
    this.selected.clear();
    this.rested = this.pointer;
    this.filter.value = "";
    this.picker.show(endpoint);
    this.drawPath();
    this.host.changed(this, remember);
    this.lookAtLease();
    await this.load(focus);
  }

  reload() {
    return this.load("", true);
  }

  /** List the folder. focus: the name of the row that is shown; keep: the folder is listed again, and what is seen and selected stays. */
  async load(focus = "", keep = false) {
    if (!this.endpoint) return;
    this.cancel();
    const stop = (this.stop = new AbortController());
    // Asked for when the rows change: the user may have selected others meanwhile.
    const chosen = () => new Set(keep ? this.entries.map((one) => one.name) : []);
    const stays = keep && this.ready;
    const wait = setTimeout(() => (stays ? this.tell() : this.say("loading")), stays ? SOON : 120);
    const mine = () => this.stop === stop;
    // Rows are shown from the first part on; a folder that is listed again stays until most of it is there.
    let waiting = [];
    let due = keep ? performance.now() + SOON : 0;
    let begun = false;
    const take = (fresh, path, isLast) => {
      waiting = waiting.concat(fresh);
      if (isLast || !mine() || !waiting.length || performance.now() < due) return;
      clearTimeout(wait);
      const at = performance.now();
      this.grow(waiting, path, begun ? null : chosen());
      [waiting, begun, due] = [[], true, performance.now() + Math.max(BETWEEN, 4 * (performance.now() - at))];
    };
    try {
      const found = await list(this.endpoint, this.path, stop.signal, take);
      if (!mine()) return;
      this.stop = null;
      const names = chosen();
      this.listing = keep && !begun ? renewed(this.listing ?? [], found.entries) : found.entries;
      this.incomplete = found.incomplete;
      this.writable = found.writable;
      this.path = found.path;
      if (!begun) this.selected = new Set(names.size ? this.listing.filter((one) => names.has(one.name)) : []);
      this.drawPath();
      if (!begun) this.arrange(focus, keep && !focus);
      else if (focus && this.scroller.scrollTop < ROW) this.arrange(focus);
      else this.grow(waiting, found.path);
    } catch (error) {
      if (!mine()) return;
      this.stop = null;
      if (begun && (error.name === "AbortError" || /SizeLimit$/.test(error.code))) {
        this.listing = this.listing.concat(waiting);
        this.grow(waiting, this.path);
        this.said.textContent = error.code ? t("The folder has more entries than the {n} that are shown.", { n: count(this.listing.length) }) : t("The listing was stopped. {n} entries are shown.", { n: count(this.listing.length) });
      } else if (error.name === "AbortError" && stays) this.tell();
      else if (error.name === "AbortError") this.say("stopped");
      else this.fail(error);
    } finally {
      clearTimeout(wait);
      if (mine() || !this.stop) this.table.ariaBusy = null;
      this.host.changed(this, false);
    }
  }

  /** More entries have come. The row under the pointer, or the current one, stays where it is. chosen: at the first. */
  grow(fresh, path, chosen = null) {
    const { column, descending } = this.order;
    if (chosen) {
      [this.listing, this.inOrder, this.shown, this.path] = [[], [], [], path];
      this.selected.clear();
      this.drawPath();
      this.table.ariaBusy = "true";
      this.state.replaceChildren();
    }
    const hovered = this.hovered();
    const held = hovered ?? this.heldRow();
    const moves = hovered !== null || this.scroller.scrollTop >= ROW || held > 0;
    const [stays, now, anchor] = [held, this.now, this.anchor].map((at) => this.shown[at]);
    if (this.stop) this.listing = this.listing.concat(fresh);
    this.inOrder = merged(this.inOrder, sorted(fresh, column, descending), column, descending);
    [this.sortedFor, this.sortedBy] = [this.listing, `${column}${descending}`];
    for (const one of fresh) if (chosen?.has(one.name)) this.selected.add(one);
    this.shown = filtered(this.inOrder, this.filter.value, this.hidden.checked);
    [this.now, this.anchor] = [now, anchor].map((one) => (one && moves ? this.shown.indexOf(one) : 0));
    this.table.setAttribute("aria-rowcount", String(this.shown.length + 1));
    this.drawn = null;
    this.emptyState();
    this.draw();
    if (stays && moves) { this.scroller.scrollTop += (this.shown.indexOf(stays) - held) * ROW; this.draw(); }
    this.tell();
    this.host.changed(this, false);
  }

  /** The row under a pointer that has moved since the folder was opened: one that rests there since points at nothing. */
  hovered() {
    const row = Math.abs(this.pointer - (this.rested ?? -ROW * 2)) > ROW ? this.body.querySelector("tr[data-at]:hover") : null;
    return row && Number(row.dataset.at);
  }

  /** The row that stays in its place while others come: the current one where it is seen, else the first that is seen. */
  heldRow() {
    const { scrollTop, clientHeight } = this.scroller;
    const first = Math.ceil(scrollTop / ROW);
    const isSeen = this.now >= first && this.now < first + Math.floor(clientHeight / ROW) - 1;
    return scrollTop < ROW || (isSeen && document.activeElement === this.table) ? this.now : first;
  }

  cancel() {
    this.stop?.abort();
  }

  up() {
    const parent = above(this.path);
    if (parent) this.go(this.endpoint, parent, { focus: this.path.replace(/\/+$/, "").split("/").pop() });
  }

  drawPath() {
    this.root.classList.toggle("vacant", !this.endpoint);
    this.crumbs.replaceChildren(...steps(this.path).map(([name, path], at, all) => el("li", { class: path === "/" ? "root" : null }, el("a", { href: this.host.address(this, path), "data-path": path, "aria-current": at === all.length - 1 ? "true" : null }, nameOf(name)))));
    this.bar.scrollLeft = this.bar.scrollWidth;
    this.crumbs.scrollLeft = this.crumbs.scrollWidth;
  }

  editPath() {
    if (!this.endpoint) return this.picker.input.focus();
    this.bar.hidden = true;
    this.edit.hidden = false;
    this.edit.value = this.path;
    this.edit.focus();
    this.edit.select();
    this.complete();
  }

  endEdit() {
    this.edit.hidden = true;
    this.bar.hidden = false;
  }

  onPathKey(event) {
    if (event.key === "Escape") this.table.focus();
    else if (event.key === "Enter") {
      const text = this.edit.value.trim();
      this.table.focus();
      if (/^[^/~][^:]*:[/~]/.test(text)) this.picker.go(text);
      else if (text) this.go(this.endpoint, text.startsWith("~") ? `/${text}` : text);
    } else return;
    event.preventDefault();
  }

  /** Offer the folders below what is typed so far. */
  async complete() {
    const base = this.edit.value.slice(0, this.edit.value.lastIndexOf("/") + 1);
    if (!base || base === this.completed) return;
    this.completed = base;
    const names = base === this.path ? this.listing ?? [] : (await list(this.endpoint, base).catch(() => ({ entries: [] }))).entries;
    const options = names.filter((one) => one.folder).slice(0, 200).map((one) => el("option", { value: `${base}${one.name}/` }));
    document.getElementById(this.edit.getAttribute("list")).replaceChildren(...options);
  }

  /** The time that is left of the credential. */
  async lookAtLease() {
    const { endpoint } = this;
    this.lease.replaceChildren();
    if (!endpoint) return;
    const found = await api("GET", `/v0.10/endpoint/${endpoint.id}`, undefined, { params: { fields: "activated,expires_in,shareable" } }).catch(() => null);
    if (!found || this.endpoint !== endpoint) return;
    endpoint.activated = found.activated;
    endpoint.left = found.expires_in;
    endpoint.shareable = found.shareable;
    if (found.activated && found.expires_in >= 0) {
      const short = found.expires_in < 7200;
      this.lease.replaceChildren(short ? icon("alert", 16) : icon("key", 16), " ", t("{time} left", { time: duration(found.expires_in) }));
      this.lease.classList.toggle("warn", short);
    }
    this.host.changed(this, false);
  }

  // ---- what is shown

  /** Show the entries in their order, from the top or at the one that has the focus. stays: at the place where they are. */
  arrange(focus = "", stays = false) {
    if (!this.listing) return;
    const held = stays ? [this.now, this.anchor].map((at) => this.shown[at]?.name) : [focus, focus];
    const { column, descending } = this.order;
    if (this.sortedFor !== this.listing || this.sortedBy !== `${column}${descending}`) {
      this.inOrder = sorted(this.listing, column, descending);
      this.sortedFor = this.listing;
      this.sortedBy = `${column}${descending}`;
    }
    this.shown = filtered(this.inOrder, this.filter.value, this.hidden.checked);
    [this.now, this.anchor] = held.map((name) => (name ? Math.max(0, this.shown.findIndex((one) => one.name === name)) : 0));
    this.drawn = null;
    for (const head of this.root.querySelectorAll("[data-sort]")) {
      if (head.dataset.sort === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    this.table.setAttribute("aria-rowcount", String(this.shown.length + 1));
    this.emptyState();
    if (!stays) this.scroller.scrollTop = 0;
    this.draw();
    if (!stays && this.now > 0) this.reveal();
    this.tell();
  }

  sort(column) {
    this.order = { column, descending: this.order.column === column && !this.order.descending };
    localStorage.setItem("transfer-order", JSON.stringify(this.order));
    this.arrange();
  }

  draw() {
    const { shown } = this;
    const { scrollTop, clientHeight } = this.scroller;
    const top = Math.min(scrollTop, Math.max(0, shown.length * ROW - clientHeight));
    const first = Math.max(0, Math.floor(top / ROW) - BEYOND);
    const last = Math.min(shown.length, first + Math.ceil(clientHeight / ROW) + 2 * BEYOND);
    if (this.drawn?.first === first && this.drawn.last === last) return;
    this.drawn = { first, last };
    this.rows.draw(shown, first, last, this.selected, this.now);
    this.pointAtCurrent();
  }

  pointAtCurrent() {
    this.table.setAttribute("aria-activedescendant", this.shown.length ? `${this.side}-row-${this.now}` : "");
  }

  /** The selection or the current row has changed. */
  redraw() {
    this.rows.mark(this.selected, this.shown[this.now]);
    this.pointAtCurrent();
    this.tell();
    this.host.changed(this, false);
  }

  reveal() {
    const top = this.now * ROW;
    const room = this.scroller.clientHeight - ROW;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + ROW > this.scroller.scrollTop + room) this.scroller.scrollTop = top + ROW - room;
  }

  /** The status line: what is selected, or what is there. */
  tell() {
    if (!this.listing) return;
    const chosen = this.entries;
    this.root.classList.toggle("choosing", chosen.length > 0);
    // What counts all the time would not let a screen reader say anything else.
    this.said.ariaLive = this.stop ? "off" : "polite";
    this.all.checked = chosen.length > 0 && this.shown.every((one) => this.selected.has(one));
    this.all.indeterminate = chosen.length > 0 && !this.all.checked;
    if (!chosen.length && this.stop) {
      const words = this.table.ariaBusy ? tn("{n} entry so far…", "{n} entries so far…", this.listing.length, { n: count(this.listing.length) }) : t("Listing…");
      this.said.replaceChildren(words, " ", button(t("Stop"), { "data-pane": "cancel", class: "link" }));
      return;
    }
    if (!chosen.length) {
      const all = this.shown.length === this.listing.length ? count(this.shown.length) : t("{some} of {all}", { some: count(this.shown.length), all: count(this.listing.length) });
      this.said.textContent = tn("{n} entry", "{n} entries", this.listing.length, { n: all });
      if (this.incomplete) this.said.append(" ", el("strong", { title: this.incomplete }, t("The listing is incomplete.")), " ", this.incomplete);
      return;
    }
    const size = chosen.reduce((sum, one) => sum + (one.folder ? 0 : one.size), 0);
    const folders = chosen.filter((one) => one.folder).length;
    const more = folders ? tn(", and what is in {n} folder", ", and what is in {n} folders", folders, { n: count(folders) }) : "";
    this.said.textContent = t("{n} selected, {size}", { n: count(chosen.length), size: octets(size) }) + more;
    const unseen = this.shown.length < this.listing.length ? chosen.length - this.shown.filter((one) => this.selected.has(one)).length : 0;
    if (unseen) this.said.append(" ", el("strong", { class: "unseen-selection" }, tn("{n} of them is not shown.", "{n} of them are not shown.", unseen, { n: count(unseen) })), " ", button(t("Select only what is shown"), { "data-pane": "selectShown", class: "link" }));
  }

  // ---- states without rows

  /** Show no rows: there is no listing. */
  empty() {
    Object.assign(this, { listing: null, shown: [], drawn: null });
    this.rows.clear();
    this.root.classList.remove("choosing");
  }

  say(kind) {
    this.empty();
    const parts = { loading: ["clock", t("Listing…"), ""], stopped: ["stop", t("The listing was stopped."), ""] }[kind];
    const act = kind === "loading" ? button(t("Stop"), { "data-pane": "cancel" }) : button(t("List again"), { "data-pane": "reload" });
    this.put(...parts, act);
  }

  put(picture, title, text, ...more) {
    this.said.textContent = "";
    this.state.replaceChildren(el("div", { class: "empty-state" }, icon(picture, 40), el("h2", {}, title), text && el("p", {}, text), ...more.filter(Boolean)));
  }

  emptyState() {
    if (this.shown.length) return this.state.replaceChildren();
    const secret = this.listing.length;
    if (!secret) return this.put("folder-open", t("This folder is empty."), this.writable ? t("Drop files here to upload them, or copy something to it.") : t("You may only read this folder."));
    if (this.filter.value) return this.put("search", t("No name contains “{text}”.", { text: this.filter.value }), "", button(t("Clear the filter"), {}, () => { this.filter.value = ""; this.arrange(); this.table.focus(); }));
    this.put("eye", tn("{n} entry is hidden.", "{n} entries are hidden.", secret, { n: count(secret) }), "", button(t("Show hidden files"), {}, () => this.hidden.click()));
  }

  /** An error, with what can be done. */
  fail(error) {
    this.empty();
    const retry = button(t("Try again"), { "data-pane": "reload" });
    const raw = el("details", { class: "fold" }, el("summary", {}, t("Details")), el("pre", { class: "raw" }, `${error.message}\n${[error.code, error.requestId].filter(Boolean).join(" · ")}`));
    if (/Activation/.test(error.code)) {
      const link = this.endpoint && el("a", { class: "button main", href: `/endpoints/${this.endpoint.id}/activate?next=${encodeURIComponent(location.pathname + location.search)}` }, t("Activate this endpoint"));
      return this.put("key", t("This endpoint is not activated."), error.message, link, retry);
    }
    if (error.code === "EndpointNotFound") return this.put("search", t("There is no such endpoint."), t("It does not exist, or you may not see it."));
    if (error.status === 404) return this.put("folder", t("There is no such folder."), "", this.endpoint && button(t("Go to the first folder"), {}, () => this.go(this.endpoint, "")), raw);
    if (error.domains) return this.put("lock", t("This endpoint asks for another sign-in."), firstLine(error.message), el("a", { class: "button main", href: signInAgain(error) }, t("Sign in again")), retry);
    if (error.status === 403 || /PermissionDenied/.test(error.code)) return this.put("lock", t("You may not read this folder."), "", this.endpoint && above(this.path) && button(t("Go up"), {}, () => this.up()), raw);
    if (error.status === 401) return this.put("lock", t("You are signed out."), t("You come back to this folder."), el("a", { class: "button main", href: signInHere() }, t("Sign in")));
    if (error.status === 429) return this.put("clock", t("Too many requests at a time."), error.message, retry);
    if (error.status === 0) return this.put("alert", t("The service did not answer."), t("Look at your connection, then try again."), retry);
    this.put("alert", t("The endpoint did not list this folder."), firstLine(error.message), retry, raw);
  }

  // ---- selection and keys

  rowAt(event) {
    return Number(event.target.closest?.("tr[data-at]")?.dataset.at ?? -1);
  }

  /** The folder whose row is under the pointer, or null. */
  folderAt(event) {
    const entry = this.shown[this.rowAt(event)];
    return entry?.folder ? entry : null;
  }

  onClick(event) {
    const at = this.rowAt(event);
    if (at < 0) return;
    // The second press of a double one would open a folder of the folder.
    if (event.target.closest(".open")) return event.detail > 1 || this.open(at);
    const entry = this.shown[at];
    if (event.shiftKey) this.range(this.anchor, at, event.ctrlKey || event.metaKey);
    else if (event.ctrlKey || event.metaKey || event.target.closest(".tick")) { this.toggle(entry); this.anchor = at; } else { this.selected = new Set([entry]); this.anchor = at; }
    this.now = at;
    this.table.focus({ preventScroll: true });
    this.redraw();
  }

  toggle(entry) {
    if (!this.selected.delete(entry)) this.selected.add(entry);
  }

  range(from, to, add = false) {
    if (!add) this.selected.clear();
    for (let at = Math.min(from, to); at <= Math.max(from, to); at += 1) this.selected.add(this.shown[at]);
  }

  selectAll() {
    this.selected = new Set(this.shown);
    this.redraw();
  }

  /** A filter hides what is selected: select no longer what is not shown. */
  selectShown() {
    this.selected = new Set(this.shown.filter((one) => this.selected.has(one)));
    this.redraw();
  }

  selectNone() {
    this.selected.clear();
    this.redraw();
  }

  invert() {
    this.selected = new Set(this.shown.filter((one) => !this.selected.has(one)));
    this.redraw();
  }

  open(at) {
    const entry = this.shown[at];
    if (!entry) return;
    if (entry.folder) this.go(this.endpoint, `${this.path}${entry.name}/`);
    else this.host.opened(this, entry);
  }

  toggleCurrent() {
    if (this.shown[this.now]) this.toggle(this.shown[this.now]);
    this.redraw();
  }

  /** The menu: of the row under the pointer, which is selected then; of the current row, by a key; else of the folder. */
  onMenu(event) {
    if (!this.ready || event.target.closest?.("thead")) return;
    event.preventDefault();
    if (event.target === this.table) return this.menuAtCurrent();
    const at = this.rowAt(event);
    if (at >= 0) {
      this.now = this.anchor = at;
      if (!this.selected.has(this.shown[at])) this.selected = new Set([this.shown[at]]);
      this.redraw();
    }
    this.host.menu(this, { x: event.clientX, y: event.clientY }, at < 0);
  }

  menuAtCurrent() {
    const row = document.getElementById(`${this.side}-row-${this.now}`) ?? this.table;
    const { left, bottom } = row.getBoundingClientRect();
    this.host.menu(this, { x: left + ROW, y: bottom }, !this.shown.length);
  }

  moveTo(at, event) {
    this.now = Math.min(this.shown.length - 1, Math.max(0, at));
    if (event.shiftKey) this.range(this.anchor, this.now);
    else this.anchor = this.now;
    this.reveal();
    this.redraw();
  }

  onKey(event) {
    if (event.target !== this.table || event.altKey) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 2);
    const to = { ArrowDown: this.now + 1, ArrowUp: this.now - 1, PageDown: this.now + page, PageUp: this.now - page, Home: 0, End: this.shown.length - 1 }[event.key];
    const control = event.ctrlKey || event.metaKey;
    if (to !== undefined) this.moveTo(to, event);
    else if (event.key === "Enter") this.open(this.now);
    else if (event.key === "Tab" && !event.shiftKey && this.host.tab(this)) { /* the other listing has the focus now */ } else if (event.key.length === 1 && !control && !"?* ".includes(event.key)) { this.filter.focus(); this.filter.value += event.key; this.arrange(); } else return;
    event.preventDefault();
  }

  onDrag(event) {
    const at = this.rowAt(event);
    if (at < 0) return;
    if (!this.selected.has(this.shown[at])) { this.selected = new Set([this.shown[at]]); this.redraw(); }
    event.dataTransfer.effectAllowed = "copy";
    event.dataTransfer.setData("application/x-waybill", this.side);
    if (this.selected.size > 1) this.drawDragged(event);
    this.host.dragged(this);
  }

  /** Several entries: the pointer has their number with it. */
  drawDragged(event) {
    const shown = el("div", { class: "dragged" }, tn("{n} entry", "{n} entries", this.selected.size, { n: count(this.selected.size) }));
    document.body.append(shown);
    event.dataTransfer.setDragImage(shown, -12, -12);
    setTimeout(() => shown.remove());
  }

  onDragOver(event) {
    const into = this.folderAt(event);
    const takes = this.host.takes(this, event, into);
    if (takes) {
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
    }
    this.aim(takes, into);
  }

  /** Show where a drop would go: into a folder, or into that of the pane. */
  aim(takes, into = null) {
    this.root.classList.toggle("over", takes && !into);
    this.rows.aim(takes ? into : null);
  }
}

const button = (text, attributes, click) => el("button", { type: "button", ...attributes, on: click ? { click } : {} }, text);
