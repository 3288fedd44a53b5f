// Live events of tasks: a stream of server-sent events, with polling where no stream is possible.
import { api } from "./api.js";
import { duration } from "./format.js";
import { Idiomorph } from "./idiomorph.js";
import { showLost, showSignedOut } from "./session.js";
import { t } from "./words.js";

const QUIET_SECONDS = 45;
const POLL_SECONDS = 5;
const STREAM_TRIES = 3;

/**
 * Listen to a stream. onTask(document) gets each task; onEvent(code, document) each event of a history. poll() is called
 * every few seconds instead where streams do not work, and returns a promise. Returns a function that ends it.
 */
export function listen(path, { onTask, onEvent, poll }) {
  let last = Date.now();
  let failures = 0;
  let stream = null;
  let timer = 0;
  let polling = false;
  let over = false;

  const heard = () => {
    last = Date.now();
    failures = 0;
    showLost(false);
  };

  function open() {
    stream = new EventSource(path);
    stream.onopen = heard;
    stream.addEventListener("task", (event) => {
      heard();
      onTask(JSON.parse(event.data));
    });
    for (const code of CODES) {
      stream.addEventListener(code, (event) => {
        heard();
        onEvent?.(code, JSON.parse(event.data));
      });
    }
    stream.onerror = () => {
      if (stream.readyState === EventSource.CLOSED) {
        // A proxy or the server refused the stream for good, or all of it was received.
        failures = STREAM_TRIES;
      }
      failures += 1;
      if (failures > 1) showLost(true);
      if (failures > STREAM_TRIES) startPolling();
    };
  }

  function back() {
    heard();
    if (!polling && !over && stream.readyState === EventSource.CLOSED) open();
  }

  async function startPolling() {
    stream?.close();
    if (polling || over) return;
    polling = true;
    while (polling && !over) {
      try {
        if ((await poll()) === false) break;
        heard();
      } catch (error) {
        if (error.status === 401) showSignedOut();
        if (error.status === 401 || error.status === 403) break;
        showLost(true);
      }
      await new Promise((done) => setTimeout(done, POLL_SECONDS * 1000));
    }
  }

  // The page is replaced in parts: look for the element each time.
  const say = (text) => {
    const shown = document.getElementById("updated");
    if (shown) shown.textContent = text;
  };
  timer = setInterval(() => {
    const seconds = Math.round((Date.now() - last) / 1000);
    if (!over) say(t("Updated {time} ago", { time: duration(seconds) }));
    if (!polling && !over && seconds > QUIET_SECONDS) {
      // The stream sends a comment every 15 seconds, which scripts do not see: ask whether the service is there.
      last = Date.now();
      api("GET", "/v0.10/submission_id").then(back, () => showLost(true));
    }
  }, 1000);
  // A stream of before may belong to an address that the machine has no longer, and would never end.
  addEventListener("offline", () => {
    stream?.close();
    if (!over) showLost(true);
  });
  addEventListener("online", () => {
    if (!over) poll().then(back, () => {});
  });
  open();
  return () => {
    over = true;
    clearInterval(timer);
    stream?.close();
    say("");
    showLost(false);
  };
}

/** The events that change what a page shows; the numbers come with the task itself. */
export const CODES = ["STARTED", "PROGRESS", "SUCCEEDED", "FAILED", "CANCELED", "EXPIRED", "PAUSED", "UNPAUSED", "NO_CREDENTIALS", "AUTH", "PERMISSION_DENIED", "FILE_NOT_FOUND", "CONNECT_FAILED", "TIMEOUT", "VERIFY_CHECKSUM", "missed"];

/** Replace parts of the page by the same parts of a fresh copy of it; what is open stays open, and focus stays. */
export async function refreshParts(...ids) {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin" });
  if (!answer.ok || answer.redirected) throw Object.assign(new Error("no page"), { status: answer.ok ? 401 : answer.status });
  // A dialog asks about a form of this page: the form must still be there when it is answered.
  if (document.querySelector("dialog[open]")) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  document.title = fresh.title;
  for (const id of ids) {
    const [old, found] = [document.getElementById(id), fresh.getElementById(id)];
    if (!old || !found) continue;
    Idiomorph.morph(old, found, { ignoreActiveValue: true, callbacks: KEPT });
  }
}

/** What the user has opened, typed or chosen stays as it is. */
const KEPT = {
  beforeAttributeUpdated: (name, node) => !(name === "open" && node.matches("details")),
  beforeNodeMorphed: (node) => !(node.matches?.("input, textarea") && (node.value !== node.defaultValue || node.checked !== node.defaultChecked)),
};

/** A function that runs at most once in a span of time, and once more at its end if it was called meanwhile. */
export function throttled(action, milliseconds) {
  let timer = 0;
  let again = false;
  return function call() {
    if (timer) {
      again = true;
      return;
    }
    action();
    timer = setTimeout(() => {
      timer = 0;
      if (again) {
        again = false;
        call();
      }
    }, milliseconds);
  };
}
