// What a finger does: it rests on something, as a mouse presses its right button.

/** Milliseconds that a finger rests, below those of the browsers; and pixels by which it may tremble. */
const RESTS = 450;
const TREMBLES = 10;

/** Call held(event) when a finger rests within root. The click, the menu and the drag of the browser that follow are left out. */
export function onLongPress(root, held) {
  let from = null;
  let timer = 0;
  let isHeld = false;
  let isTouch = false;
  const end = () => { clearTimeout(timer); from = null; };
  addEventListener("pointerdown", (event) => {
    end();
    isHeld = false;
    isTouch = event.pointerType === "touch";
    if (!isTouch || !event.isPrimary || !root.contains(event.target)) return;
    from = event;
    timer = setTimeout(() => { isHeld = true; held(event); }, RESTS);
  }, true);
  root.addEventListener("pointermove", (event) => {
    if (from && Math.hypot(event.clientX - from.clientX, event.clientY - from.clientY) > TREMBLES) end();
  });
  for (const kind of ["pointerup", "pointercancel"]) addEventListener(kind, end);
  const leaveOut = (event) => { event.preventDefault(); event.stopImmediatePropagation(); };
  // The click goes to what is below the finger by now: that is the menu.
  for (const kind of ["mousedown", "click"]) addEventListener(kind, (event) => isHeld && event.detail > 0 && leaveOut(event), true);
  root.addEventListener("contextmenu", (event) => isTouch && leaveOut(event), true);
  root.addEventListener("dragstart", (event) => isTouch && leaveOut(event), true);
}
