// The latest tasks, below the panes. They are asked for while one of them is active and the page is seen.
import { api } from "./api.js";
import { el, icon, nameOf } from "./dom.js";
import { octets, timeElement } from "./format.js";
import { t } from "./words.js";

const FIELDS = "task_id,label,type,status,nice_status,is_paused,source_endpoint_display_name,destination_endpoint_display_name,bytes_transferred,files_transferred,files,request_time,canceled_by_admin,fatal_error,subtasks_skipped_errors";
const SECONDS = 3;

export class Dock {
  /** states: key -> {icon, word}, as the page shows states. */
  constructor(root, states, changed) {
    Object.assign(this, { root, states, changed, ended: null });
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
  }

  async look() {
    clearTimeout(this.timer);
    const found = await api("GET", "/v0.10/task_list", undefined, { params: { limit: 4, orderby: "request_time DESC", fields: FIELDS } }).catch(() => null);
    if (found) this.show(found.DATA);
    const busy = !found || found.DATA.some((one) => one.status === "ACTIVE");
    if (busy && !document.hidden) this.timer = setTimeout(() => this.look(), SECONDS * 1000);
  }

  show(tasks) {
    this.root.hidden = !tasks.length;
    const rows = tasks.map((task) => this.row(task));
    if (rows.map((row) => row.textContent).join("\n") !== [...this.root.children].map((row) => row.textContent).join("\n")) this.root.replaceChildren(...rows);
    const ended = new Set(tasks.filter((one) => one.status !== "ACTIVE").map((one) => one.task_id));
    if (this.ended && [...ended].some((id) => this.known.has(id) && !this.ended.has(id))) this.changed();
    this.ended = ended;
    this.known = new Set(tasks.map((one) => one.task_id));
  }

  row(task) {
    const key = stateOf(task);
    const state = this.states[key] ?? { icon: "activity", word: task.status };
    const between = task.type === "DELETE" ? task.source_endpoint_display_name : `${task.source_endpoint_display_name} → ${task.destination_endpoint_display_name}`;
    return el("div", { class: "row" },
      el("span", { class: `chip ${key}` }, icon(state.icon, 16), state.word),
      el("a", { class: "cut", href: `/activity/${task.task_id}` }, nameOf(task.label || (task.type === "DELETE" ? t("Deletion") : t("Transfer")))),
      el("span", { class: "cut soft" }, nameOf(between)),
      el("span", { class: "number soft" }, task.type === "DELETE" ? "" : octets(task.bytes_transferred)),
      el("span", { class: "soft nowrap" }, timeElement(task.request_time)));
  }
}

function stateOf(task) {
  if (task.status === "SUCCEEDED") return task.subtasks_skipped_errors ? "skips" : "done";
  if (task.status === "FAILED") return task.fatal_error?.code === "CANCELED" ? "canceled" : "failed";
  if (task.status === "INACTIVE") return "needs-you";
  if (task.is_paused) return "paused";
  return "active";
}
