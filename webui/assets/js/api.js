// Calls of the REST interface with the session of the page.
import { showSignedOut } from "./session.js";
import { t } from "./words.js";

/** An answer that is an error: its status, its code, its message and the id of the request. */
export class ApiError extends Error {
  constructor(status, document, challenge = "") {
    super(document.message ?? t("The service did not answer."));
    this.status = status;
    this.code = document.code ?? "";
    this.requestId = document.request_id ?? "";
    /** The domains that an endpoint demands of the sign-in; null: another sign-in is no help. */
    this.domains = this.code === "AuthorizationRequired" ? (document.authorization_parameters?.session_required_single_domain ?? []) : null;
    /** What is demanded of another provider (RFC 9470): that it says when it has asked the user, or only that it asks. */
    this.fresh = challenge.includes("max_age=") ? "required" : "asked";
  }
}

/** The address that signs in as an endpoint demands it, and leads back to this page. */
export function signInAgain(error) {
  const query = [["again", "1"], ["fresh", error.fresh], ["next", location.pathname + location.search], ...error.domains.map((one) => ["domain", one])];
  return `/signin?${new URLSearchParams(query)}`;
}

/** What an error of an endpoint says, without the lines around it. */
export const firstLine = (text) => /Message: (.*)/.exec(text)?.[1] ?? text.split("\n")[0];

/** The document of an answer. Raises ApiError; status 0: the service was not reached. options: signal, params. */
export async function api(method, path, body, { signal, params } = {}) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRFToken"] = document.body.dataset.csrf ?? "";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const query = params ? `?${new URLSearchParams(params)}` : "";
  let answer;
  try {
    answer = await fetch(path + query, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, {});
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const error = new ApiError(answer.status, found, answer.headers.get("WWW-Authenticate") ?? "");
    if (answer.status === 401 && !error.domains) showSignedOut();
    throw error;
  }
  return found;
}
