// The latest tasks, below the panes, as the service writes them. They are asked for while the page is seen.
import { localTimes } from "./format.js";
import { showLost, showSignedOut } from "./session.js";

/** Seconds between two looks: while a task is in progress, or the service was not reached; and otherwise. */
const [BUSY, IDLE] = [3, 30];

export class Dock {
  /** changed(): called when a task has ended; back(): when the service is reached again. */
  constructor(root, changed, back) {
    Object.assign(this, { root, changed, back, running: new Set(), lost: false });
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
    addEventListener("offline", () => this.away());
    addEventListener("online", () => this.look());
  }

  async look() {
    clearTimeout(this.timer);
    const rows = await this.ask();
    if (rows) this.show(rows);
    const busy = !rows || this.running.size > 0;
    clearTimeout(this.timer);
    if (!document.hidden && !this.over) this.timer = setTimeout(() => this.look(), (busy ? BUSY : IDLE) * 1000);
  }

  /** The rows; null where the service did not answer. */
  async ask() {
    const answer = await fetch("/activity/latest", { headers: { Accept: "text/html" }, credentials: "same-origin" }).catch(() => null);
    if (!answer || answer.status >= 500) return this.away();
    if (this.lost) {
      this.lost = false;
      showLost(false);
      this.back();
    }
    if (answer.redirected) {
      // The page to sign in.
      this.over = true;
      showSignedOut();
      return null;
    }
    return answer.ok ? answer.text() : null;
  }

  away() {
    this.lost = true;
    showLost(true);
    return null;
  }

  show(rows) {
    const fresh = new DOMParser().parseFromString(rows, "text/html").getElementById("dock");
    if (!fresh) return;
    localTimes(fresh);
    if (fresh.textContent !== this.root.textContent) this.root.replaceChildren(...fresh.childNodes);
    this.root.hidden = !this.root.children.length;
    const over = [...this.root.querySelectorAll("[data-over]")].map((row) => row.dataset.task);
    if (over.some((id) => this.running.has(id))) this.changed();
    this.running = new Set([...this.root.querySelectorAll("[data-task]:not([data-over])")].map((row) => row.dataset.task));
  }
}
