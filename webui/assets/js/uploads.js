// Uploads: a file goes to the endpoint in parts, with progress, and goes on after an interruption.
import { api, ApiError, firstLine } from "./api.js";
import { encodePath, operation } from "./entries.js";
import { el, icon, nameOf, plainName, wait } from "./dom.js";
import { octets, rate } from "./format.js";
import { t } from "./words.js";

/** Octets of one request, files at a time, and attempts without progress until an upload is given up. */
const PART = 16 * 1024 * 1024;
const AT_ONCE = 2;
const ATTEMPTS = 6;
/** Milliseconds for which the part of another page, or of the page before it was loaded again, is waited for: longer than it may take. */
const BUSY = 10 * 60 * 1000;

const waiting = [];
let running = 0;

/** Upload a file into a folder; done(error) is called at its end. replace: whether an existing file may be replaced. */
export function upload(endpoint, folder, file, replace, done) {
  const one = new Upload(endpoint, folder, file, replace, done);
  waiting.push(one);
  next();
}

function next() {
  while (running < AT_ONCE && waiting.length) {
    const one = waiting.shift();
    if (one.stopped) continue;
    running += 1;
    one.run().finally(() => { running -= 1; next(); });
  }
}

class Upload {
  constructor(endpoint, folder, file, replace, done) {
    Object.assign(this, { endpoint, file, replace, done, path: `${folder}${file.name}`, sent: 0, stopped: false });
    this.bar = el("progress", { max: "1", value: "0", "aria-label": plainName(file.name) });
    this.say = el("div", { class: "say soft", role: "status" }, t("Waits"));
    const stop = el("button", { type: "button", class: "icon-only", "aria-label": t("Stop the upload of {name}", { name: plainName(file.name) }), on: { click: () => this.stop() } }, icon("close", 16));
    this.row = el("div", { class: "one" }, el("div", { class: "cut" }, nameOf(file.name), el("span", { class: "soft" }, " → ", nameOf(endpoint.name), " ", nameOf(folder))), stop, this.bar, this.say);
    box().append(this.row);
  }

  get address() {
    return `?path=${encodePath(this.path)}&upload_id=${this.id}`;
  }

  async run() {
    const { file } = this;
    // The same file gets the same name: a later visit of the page goes on with it.
    this.id = await digest(`${file.size}\n${file.lastModified}\n${file.name}`);
    this.begun = performance.now();
    try {
      this.at = (file.size > PART && (await this.received())) || 0;
      this.first = this.at;
      for (let attempt = 1; ; ) {
        const before = this.at;
        try {
          if (await this.part()) break;
          attempt = 1;
          this.busy = 0;
        } catch (error) {
          if (this.stopped || attempt >= ATTEMPTS || !(await this.again(error, attempt))) throw error;
          if (!this.isBusy(error)) attempt = this.at > before ? 1 : attempt + 1;
        }
      }
      this.end("good", t("Done, {size}", { size: octets(file.size) }));
      this.done(null);
    } catch (error) {
      this.end("bad", this.stopped ? t("Stopped.") : firstLine(error.message));
      this.done(this.stopped ? null : error);
    }
  }

  /** Where the upload goes on; null where that is not known. */
  async received() {
    const found = await api("GET", operation(this.endpoint, "upload") + this.address).catch(() => null);
    return found && Math.min(found.received, this.file.size);
  }

  /** Whether another request writes a part of this upload: it goes on by itself, and this is no failed attempt. */
  isBusy(error) {
    if (error.code !== "UploadBusy") return false;
    this.busy ||= performance.now();
    return performance.now() - this.busy < BUSY;
  }

  /** Wait before another attempt; false where one is of no use. */
  async again(error, attempt) {
    const n = error.after ?? attempt * 2;
    if (error.code === "UploadOffset") this.at = (await this.received()) ?? this.at;
    else if (error.status && ![429, 502, 503].includes(error.status)) return false;
    else {
      if (error.code === "UploadBusy") this.say.textContent = t("Another page sends this file; looks again in {n} s", { n });
      else this.say.textContent = t("Interrupted; tries again in {n} s", { n });
      await wait(n * 1000);
      // Only forward: an upload that is complete has received nothing, and says so to who sends its last part again.
      if (this.file.size > PART) this.at = Math.max(this.at, (await this.received()) ?? 0);
    }
    return !this.stopped;
  }

  /** Send the next part; whether it was the last one. */
  part() {
    const { file, at } = this;
    const body = file.slice(at, Math.min(at + PART, file.size));
    const request = (this.request = new XMLHttpRequest());
    request.open("PUT", operation(this.endpoint, "file") + this.address);
    request.setRequestHeader("X-CSRFToken", document.body.dataset.csrf ?? "");
    request.setRequestHeader("Content-Type", "application/octet-stream");
    if (file.size) request.setRequestHeader("Content-Range", `bytes ${at}-${at + body.size - 1}/${file.size}`);
    if (!this.replace) request.setRequestHeader("If-None-Match", "*");
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => this.show(at + event.loaded));
    return new Promise((resolve, reject) => {
      request.addEventListener("load", () => {
        const found = request.response ?? {};
        if (request.status !== 200) return reject(Object.assign(new ApiError(request.status, found), { after: Number(request.getResponseHeader("Retry-After")) || undefined }));
        this.at = found.received;
        this.show(this.at);
        resolve(found.complete);
      });
      for (const name of ["error", "abort", "timeout"]) request.addEventListener(name, () => reject(new ApiError(0, {})));
      request.send(body);
    });
  }

  show(sent) {
    const seconds = (performance.now() - this.begun) / 1000;
    this.bar.value = this.file.size ? sent / this.file.size : 1;
    this.say.textContent = t("{sent} of {size}, {rate}", { sent: octets(Math.min(sent, this.file.size)), size: octets(this.file.size), rate: rate((sent - this.first) / Math.max(seconds, 0.2)) });
  }

  stop() {
    // The same button removes the row afterwards: what has arrived stays, so that a later visit goes on with it.
    if (this.over) return;
    this.stopped = true;
    this.request?.abort();
    if (this.id) api("DELETE", operation(this.endpoint, "upload") + this.address).catch(() => {});
    else this.end("bad", t("Stopped."));
  }

  end(tone, text) {
    this.over = true;
    this.bar.className = tone === "good" ? "done" : "bad";
    this.bar.value = tone === "good" ? 1 : this.bar.value;
    this.say.textContent = text;
    this.say.className = `say ${tone}`;
    const close = this.row.querySelector("button");
    close.setAttribute("aria-label", t("Remove from the list"));
    close.addEventListener("click", () => { this.row.remove(); tidy(); });
    if (tone === "good") setTimeout(() => { this.row.remove(); tidy(); }, 6000);
  }
}

function box() {
  const shown = document.getElementById("uploads");
  if (shown.hidden) {
    shown.replaceChildren(el("div", { class: "head" }, t("Uploads")));
    shown.hidden = false;
  }
  return shown;
}

function tidy() {
  const shown = document.getElementById("uploads");
  if (!shown.querySelector(".one")) shown.hidden = true;
}

async function digest(text) {
  if (!globalThis.crypto?.subtle) return Array.from(text, (letter) => letter.charCodeAt(0).toString(36)).join("").slice(0, 60);
  const found = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return Array.from(new Uint8Array(found).slice(0, 16), (octet) => octet.toString(16).padStart(2, "0")).join("");
}

