// Banners: the service cannot be reached, or the reader is signed out.
import { el, icon } from "./dom.js";
import { t } from "./words.js";

const banner = (id, classes, ...content) => document.getElementById("banners").append(el("div", { class: `attention ${classes}`, id, role: "alert" }, el("div", { class: "inside" }, ...content)));

/** Show, or no longer show, that the service cannot be reached. */
export function showLost(lost) {
  const there = document.getElementById("lost");
  if (!lost) there?.remove();
  else if (!there) banner("lost", "lost", icon("alert", 20), t("The connection to Waybill is lost. What is shown may be old; the page tries again by itself. Your tasks go on."));
}

/** The address that signs in and leads back to this page, for a reader who is signed out. */
export const signInHere = () => `/signin?${new URLSearchParams({ next: location.pathname + location.search })}`;

/** Show that the reader is signed out: in another tab, or because the session has ended. */
export function showSignedOut() {
  if (document.getElementById("signed-out")) return;
  const link = el("a", { href: signInHere() }, t("Sign in"));
  // The address of the page may change before the link is used.
  link.addEventListener("click", () => (link.href = signInHere()));
  banner("signed-out", "", icon("lock", 20), t("You are signed out."), link);
}
