// The list of tasks, live: numbers come with each task; where a state changes or a task is new, the list is read again.
import "./base.js";
import { register } from "./actions.js";
import { localTimes, octets, rate } from "./format.js";
import { listen, refreshParts, throttled } from "./live.js";
import { Rates } from "./rates.js";
import { t } from "./words.js";

const rates = new Map();
const refresh = async () => {
  await refreshParts("live", "banners");
  localTimes(document.getElementById("live"));
};
const refreshSoon = throttled(() => refresh().catch(() => {}), 3000);
const isDone = (task) => task.status === "SUCCEEDED" || task.status === "FAILED";
const shown = new Map();

function onTask(task) {
  const row = document.querySelector(`tr[data-task="${CSS.escape(task.task_id)}"]`);
  const state = [task.status, task.is_paused, task.nice_status, task.files > 0].join();
  const before = shown.get(task.task_id);
  shown.set(task.task_id, state);
  if (isDone(task)) rates.delete(task.task_id);
  if ((before !== undefined && before !== state) || (!row && before === undefined && ready)) refreshSoon();
  if (row && !isDone(task)) showNumbers(row, task);
}

function showNumbers(row, task) {
  const known = rates.get(task.task_id) ?? new Rates();
  rates.set(task.task_id, known);
  const now = known.add(task.bytes_transferred);
  const scanning = task.subtasks_total === task.files + 1 && task.subtasks_pending > task.files - task.files_transferred - task.files_skipped;
  const say = row.querySelector("[data-field=say]");
  const bar = row.querySelector("[data-field=percent]");
  const total = Number(bar?.dataset.total ?? 0);
  const done = octets(task.bytes_transferred);
  if (!scanning && say && now !== null) {
    say.textContent = total > task.bytes_transferred ? t("{done} of {all}", { done, all: octets(total) }) : done;
    row.querySelector("[data-field=rate]").textContent = rate(now);
  }
  // A file that is sent again from its start takes its octets back: the bar goes back, too.
  if (!scanning && bar && task.files) bar.value = Math.min(99, total ? (100 * task.bytes_transferred) / total : (100 * (task.files_transferred + task.files_skipped + (task.files_failed ?? 0))) / task.files);
}

// Ages and forecasts come with the page alone.
setInterval(() => document.hidden || refreshSoon(), 60000);

let ready = false;
setTimeout(() => (ready = true), 3000);
listen("/v0.10/event_stream", { onTask, poll: refresh });

const rows = () => [...document.querySelectorAll(".tasks .what > a")];
const step = (by) => () => {
  const found = rows();
  const at = found.indexOf(document.activeElement);
  found[Math.max(0, Math.min(found.length - 1, at + by))]?.focus();
};
const group = t("List of tasks");
register({ name: "next-task", text: t("Next task"), shortcut: ["j", "ArrowDown"], group, run: step(1) });
register({ name: "previous-task", text: t("Previous task"), shortcut: ["k", "ArrowUp"], group, run: step(-1) });
register({ name: "search-tasks", text: t("Search tasks"), shortcut: "/", group, run: () => document.getElementById("q").focus() });
