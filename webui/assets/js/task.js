// The page of a task, live: numbers come with the task; after events the page is read again, at most every few seconds.
import "./base.js";
import { register } from "./actions.js";
import { api } from "./api.js";
import { count, duration, localTimes, octets, rate } from "./format.js";
import { listen, refreshParts, throttled } from "./live.js";
import { Rates } from "./rates.js";
import { t } from "./words.js";

const id = document.body.dataset.task;
const rates = new Rates();
const field = (name) => document.querySelector(`[data-field=${name}]`);
const isRunning = () => document.getElementById("live").hasAttribute("data-running");
const put = (name, text) => {
  const at = field(name);
  if (at && at.textContent !== text) at.textContent = text;
};
let stop = () => {};
let state = "";
let now = null;

const refresh = async () => {
  await refreshParts("live", "banners");
  localTimes(document.getElementById("live"));
  if (rates.line.length) drawRate();
  const over = !isRunning();
  if (over) stop();
  return !over;
};
const refreshSoon = throttled(() => refresh().catch(() => {}), 4000);

function drawRate() {
  const drawing = document.getElementById("spark");
  if (drawing && rates.line.length > 1) rates.draw(drawing);
  put("now", rate(now));
}

function onTask(task) {
  const found = [task.status, task.is_paused, task.nice_status, task.faults].join();
  if (state && found !== state) refreshSoon();
  state = found;
  if (task.status !== "ACTIVE") return;
  now = rates.add(task.bytes_transferred) ?? now;
  if (now !== null) drawRate();
  put("files", count(task.files_transferred));
  put("faults", count(task.faults));
  const moved = document.querySelector("[data-phase=move]");
  const total = totalNow();
  const verified = document.querySelector("[data-phase=verify]");
  if (moved && total) {
    moved.querySelector("progress").value = Math.min(100, (100 * task.bytes_transferred) / total);
    moved.querySelector(".say").textContent = t("{done} of {all}", { done: octets(task.bytes_transferred), all: octets(total) });
  }
  if (verified && task.files) verified.querySelector("progress").value = Math.min(99, (100 * (task.files_transferred + task.files_skipped)) / task.files);
}

// The forecast, and the number of octets that it speaks of, are asked for now and then: a stream does not have them.
const totalNow = () => Number(document.querySelector("[data-total]")?.dataset.total ?? 0);
async function askForecast() {
  if (document.hidden || !field("left")) return;
  try {
    const task = await api("GET", `/v0.10/task/${id}`);
    const range = task.forecast_seconds_left;
    if (task.is_ok === false && !range) refreshSoon();
    else if (!range || range.high > 999 * 3600 || range.high > 10 * Math.max(range.low, 1) + 60) put("left", t("remaining time unknown"));
    else if (duration(round(range.low)) === duration(round(range.high))) put("left", t("about {time} left", { time: duration(round(range.high)) }));
    else put("left", t("{low} to {high} left", { low: duration(round(range.low)), high: duration(round(range.high)) }));
  } catch {
    // The stream shows whether the connection is lost.
  }
}

function round(seconds) {
  const [, step] = [[21600, 1800], [3600, 300], [600, 60], [60, 10], [0, 1]].find(([longer]) => seconds >= longer);
  return Math.max(1, Math.round(seconds / step) * step);
}

if (isRunning()) {
  stop = listen(`/v0.10/task/${id}/event_stream`, { onTask, onEvent: refreshSoon, poll: refresh });
  setInterval(askForecast, 10000);
  setInterval(() => isRunning() && refreshSoon(), 20000);
}

const press = (action) => document.querySelector(`form[action$="/${action}"] button, #run-${action}`);
const group = t("This task");
for (const [name, shortcut, text] of [["cancel", "c", t("Cancel the task")], ["again", "r", t("Run again")], ["retry", "f", t("Retry failed files")]]) {
  register({ name: `task-${name}`, text, shortcut, group, enabled: () => Boolean(press(name)), run: () => press(name).click() });
}
