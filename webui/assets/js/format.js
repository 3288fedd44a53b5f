// Amounts and times as the templates write them, in the language of the page and the zone of the reader.
import { t } from "./words.js";

const LANGUAGE = document.documentElement.lang || "en";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

export function octets(amount) {
  if (amount === null || amount === undefined) return "–";
  let value = amount;
  let step = 0;
  while (value >= 1024 && step < UNITS.length - 1) [value, step] = [value / 1024, step + 1];
  const digits = step === 0 || value >= 100 ? 0 : 1;
  return `${value.toLocaleString(LANGUAGE, { minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false })} ${UNITS[step]}`;
}

export const rate = (amount) => (amount === null || amount === undefined ? "–" : `${octets(amount)}/s`);

export const count = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");

/** A span of time in its two largest units. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  let left = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [size, unit] of [[86400, t("d")], [3600, t("h")], [60, t("min")], [1, t("s")]]) {
    if (left >= size || (size === 1 && !parts.length)) {
      parts.push(`${Math.floor(left / size)} ${unit}`);
      left %= size;
    }
  }
  return parts.slice(0, 2).join(" ");
}

const SHORT = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "short" });
const TODAY = new Intl.DateTimeFormat(LANGUAGE, { timeStyle: "short" });
const LONG = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "full", timeStyle: "long" });

const SHORT_EXACT = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "medium" });
const TODAY_EXACT = new Intl.DateTimeFormat(LANGUAGE, { timeStyle: "medium" });

/** A time in the reader's zone; of today, the time alone. exact: with seconds. */
export function when(time, exact = false) {
  const now = new Date();
  const [today, other] = exact ? [TODAY_EXACT, SHORT_EXACT] : [TODAY, SHORT];
  return (time.toDateString() === now.toDateString() ? today : other).format(time);
}

/** Show all `<time data-when>` below an element in the reader's zone, with UTC in the title. */
export function localTimes(root = document) {
  for (const shown of root.querySelectorAll("time[data-when]")) {
    const time = new Date(shown.dateTime);
    if (Number.isNaN(time.valueOf())) continue;
    const utc = `${time.toISOString().slice(0, 19).replace("T", " ")} UTC`;
    shown.textContent = when(time, shown.dataset.when === "seconds");
    shown.title = `${LONG.format(time)}\n${utc}`;
    shown.removeAttribute("data-when");
  }
}

/** A `<time>` element for an ISO text. */
export function timeElement(text) {
  const made = document.createElement("time");
  made.dateTime = text;
  made.setAttribute("data-when", "");
  const box = document.createElement("span");
  box.append(made);
  localTimes(box);
  return made;
}
