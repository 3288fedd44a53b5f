"""A listing of many entries on the Transfer page: until the first row, sorted, filtered, and while it scrolls."""

from __future__ import annotations

from tests.browsers.chromium import Chromium
from tests.instance import Api
from tests.waiting import eventually

PANE = "#pane-origin"
#: Each step returns milliseconds until the frame after it was painted. `next` resolves with the next frame.
_STEPS = f"""
const pane = document.querySelector("{PANE}");
const next = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
const rows = () => pane.querySelectorAll("tr[data-at]").length;
const timed = async (act, done) => {{
  const begun = performance.now();
  act();
  while (done && !done()) await new Promise(again => setTimeout(again, 2));
  await next();
  return performance.now() - begun;
}};
const filter = pane.querySelector(".filter-text");
const type = text => {{ filter.value = text; filter.dispatchEvent(new Event("input")); }};
const sort = name => pane.querySelector(`[data-sort=${{name}}] button`).click();
const scroller = pane.querySelector(".scroller");
"""
_LISTING = (
    _STEPS
    + """
pane.querySelectorAll("tr[data-at]").forEach(row => row.remove());
const found = {};
const begun = performance.now();
let longest = 0, before = begun, arriving = true;
const watch = now => {
  longest = Math.max(longest, now - before);
  before = now;
  if (arriving) requestAnimationFrame(watch);
};
found["to the first row, ms"] = await timed(() => pane.querySelector(".path-bar a").click(), () => rows() > 0);
before = performance.now();
requestAnimationFrame(watch);
await timed(() => {}, () => pane.querySelector("table").ariaBusy !== "true");
arriving = false;
found["to all rows, in order, ms"] = performance.now() - begun;
found["longest frame while rows arrive, ms"] = longest;
found["sorted by size, ms"] = await timed(() => sort("size"));
found["sorted by name, ms"] = await timed(() => sort("name"));
found["reversed, ms"] = await timed(() => sort("name"));
await timed(() => sort("name"));
found["filtered, ms"] = await timed(() => type("event-0999"));
found["filter cleared, ms"] = await timed(() => type(""));
found["all selected, ms"] = await timed(() => pane.querySelector(".all").click());
await timed(() => pane.querySelector(".all").click());
let last = performance.now(), dropped = 0, frames = 0;
for (let step = 0; step <= 120; step += 1) {
  scroller.scrollTop = scroller.scrollHeight * step / 120;
  await new Promise(requestAnimationFrame);
  const now = performance.now();
  dropped += now - last > 34 ? Math.round((now - last) / 16.7) - 1 : 0;
  frames += 1;
  last = now;
}
found["frames while it scrolls"] = frames;
found["frames dropped"] = dropped;
found["rows in the document"] = rows();
return found;
"""
)


def measure(browser: Chromium, api: Api, endpoint: str) -> dict[str, float]:
    browser.open(f"{api.url}/transfer?origin_id={endpoint}&origin_path=/")
    eventually(lambda: browser.run(f"return document.querySelectorAll('{PANE} tr[data-at]').length > 0"), seconds=60)
    found: dict[str, float] = browser.run(f"return (async () => {{ {_LISTING} }})()")
    return found
