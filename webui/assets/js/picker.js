// The endpoint picker of a pane: recent ones and bookmarks first, a search by name, and `endpoint:/path` pasted.
import { api } from "./api.js";
import { el, nameOf } from "./dom.js";
import { t } from "./words.js";

const FIELDS = "id,display_name,canonical_name,activated,expires_in";
const known = (row) => ({ id: row.id, name: row.display_name, canonical_name: row.canonical_name });

/** What is offered before anything is typed; asked for once. */
let offered = null;

async function offer() {
  const search = (scope) => api("GET", "/v0.10/endpoint_search", undefined, { params: { filter_scope: scope, limit: 8, fields: FIELDS } });
  const [recent, bookmarks, mine] = await Promise.allSettled([search("recently-used"), api("GET", "/v0.10/bookmark_list"), search("my-endpoints")]);
  const rows = (settled) => settled.value?.DATA ?? [];
  return [
    [t("Recently used"), rows(recent).map((row) => ({ endpoint: known(row), sub: row.canonical_name }))],
    [t("Bookmarks"), rows(bookmarks).slice(0, 50).map((row) => ({ title: row.name, reference: row.endpoint_id, path: row.path, sub: row.path }))],
    [t("Yours"), rows(mine).map((row) => ({ endpoint: known(row), sub: row.canonical_name }))],
  ];
}

/** The endpoint with this id or name. Raises ApiError. */
async function lookUp(reference) {
  return known(await api("GET", `/v0.10/endpoint/${encodeURIComponent(reference)}`, undefined, { params: { fields: FIELDS } }));
}

export class Picker {
  /** choose(endpoint, path): called with what was picked; path "" for the endpoint's own. */
  constructor(root, choose) {
    this.input = root.querySelector(".pick");
    this.list = root.querySelector(".picks");
    this.choose = choose;
    this.options = [];
    this.now = -1;
    this.shown = "";
    this.input.addEventListener("focus", () => { this.input.select(); this.open(""); });
    this.input.addEventListener("input", () => this.later());
    this.input.addEventListener("keydown", (event) => this.onKey(event));
    this.input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    this.list.addEventListener("mousedown", (event) => {
      event.preventDefault();
      const at = event.target.closest("[data-at]")?.dataset.at;
      if (at) this.take(Number(at));
    });
  }

  show(endpoint) {
    this.shown = endpoint?.name ?? "";
    this.input.value = this.shown;
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(this.input.value.trim()), 150);
  }

  async open(text) {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    const groups = text ? await this.search(text) : await (offered ??= offer());
    if (turn === this.turn && document.activeElement === this.input) this.render(groups, text);
  }

  async search(text) {
    if (text.includes("/")) return [];
    const found = await api("GET", "/v0.10/endpoint_search", undefined, { params: { filter_fulltext: text, limit: 20, fields: FIELDS } }).catch(() => ({ DATA: [] }));
    return [["", found.DATA.map((row) => ({ endpoint: known(row), sub: row.canonical_name }))]];
  }

  render(groups, text) {
    this.options = [];
    this.now = -1;
    const rows = [];
    for (const [title, found] of groups) {
      if (found.length && title) rows.push(el("li", { class: "group", role: "presentation" }, title));
      for (const one of found) {
        const at = this.options.push(one) - 1;
        rows.push(el("li", { role: "option", id: `${this.list.id}-${at}`, "data-at": String(at), "aria-selected": "false" }, nameOf(one.title ?? one.endpoint.name), el("span", { class: "sub cut" }, nameOf(one.sub))));
      }
    }
    if (!this.options.length) rows.push(el("li", { class: "group", role: "presentation" }, text ? t("No endpoint fits. Press Enter to go to endpoint:/path.") : t("Type to search all endpoints.")));
    this.list.replaceChildren(...rows);
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
  }

  close() {
    this.turn = (this.turn ?? 0) + 1;
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
    if (document.activeElement !== this.input) this.input.value = this.shown;
  }

  onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.options.length) this.move((this.now + step + this.options.length) % this.options.length);
    else if (event.key === "Enter") this.enter();
    else if (event.key === "Escape" && !this.list.hidden) this.close();
    else return;
    event.preventDefault();
  }

  move(to) {
    this.list.querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
    this.now = to;
    const row = this.list.querySelector(`[data-at="${to}"]`);
    row.setAttribute("aria-selected", "true");
    row.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", row.id);
  }

  enter() {
    const text = this.input.value.trim();
    if (this.now >= 0) this.take(this.now);
    else if (text && text !== this.shown) this.go(text);
  }

  take(at) {
    const one = this.options[at];
    this.close();
    if (one.endpoint) this.choose(one.endpoint, "");
    else this.go(one.reference, one.path);
  }

  /** `go#ep1`, `go#ep1:/share/`, or an id with a path. */
  async go(text, path = "") {
    const colon = path ? -1 : text.search(/:[/~]/);
    const [reference, wanted] = colon < 0 ? [text, path] : [text.slice(0, colon), text.slice(colon + 1)];
    const first = this.options[0]?.endpoint;
    this.close();
    try {
      this.choose(await lookUp(reference), wanted);
    } catch (error) {
      if (first && colon < 0) this.choose(first, "");
      else this.choose(null, "", error);
    }
  }
}
