// Passkeys: ask the service for a challenge, the browser for an answer, and send the form with it.
import { t } from "./words.js";

const decode = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
const encode = (octets) => btoa(String.fromCharCode(...new Uint8Array(octets))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const withIds = (keys) => (keys ?? []).map((key) => ({ ...key, id: decode(key.id) }));

/** The address of the options, and the call of the browser, by what the form is for. */
const KINDS = {
  new: { options: "/account/passkeys/options", ask: create },
  "sign-in": { options: "/signin/passkey/options", ask: get },
  second: { options: "/signin/passkey/options", ask: get },
};

async function create(given) {
  const publicKey = { ...given, challenge: decode(given.challenge), user: { ...given.user, id: decode(given.user.id) }, excludeCredentials: withIds(given.excludeCredentials) };
  const made = await navigator.credentials.create({ publicKey });
  return answer(made, { attestationObject: encode(made.response.attestationObject), transports: made.response.getTransports?.() ?? [] });
}

async function get(given) {
  const publicKey = { ...given, challenge: decode(given.challenge), allowCredentials: withIds(given.allowCredentials) };
  const found = await navigator.credentials.get({ publicKey });
  const { authenticatorData, signature, userHandle } = found.response;
  return answer(found, { authenticatorData: encode(authenticatorData), signature: encode(signature), userHandle: userHandle ? encode(userHandle) : null });
}

/** The answer as JSON (WebAuthn level 3, 5.1), which not every browser writes itself. */
function answer(credential, response) {
  const id = encode(credential.rawId);
  return JSON.stringify({ id, rawId: id, type: credential.type, clientExtensionResults: {}, response: { clientDataJSON: encode(credential.response.clientDataJSON), ...response } });
}

async function run(form) {
  const { options, ask } = KINDS[form.dataset.passkey];
  const body = new URLSearchParams({ csrfmiddlewaretoken: form.elements.csrfmiddlewaretoken.value });
  if (form.dataset.passkey === "second") body.set("second", "yes");
  const found = await fetch(options, { method: "POST", body, credentials: "same-origin" });
  const given = await found.json().catch(() => ({}));
  if (given.again) return location.assign(given.again);
  if (!found.ok) throw new Error(given.message ?? t("The service did not answer."));
  form.elements.credential.value = await ask(given);
  form.submit();
}

const REASONS = {
  NotAllowedError: t("It was canceled, took too long, or no device has such a passkey."),
  InvalidStateError: t("This device has a passkey for your account already."),
  SecurityError: t("The browser refuses passkeys at this address."),
};

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.passkey) return;
  event.preventDefault();
  const wrong = form.querySelector(".wrong[role]");
  const button = form.querySelector("button");
  wrong.hidden = button.disabled = true;
  try {
    if (!window.PublicKeyCredential) throw new Error(t("This browser has no passkeys."));
    await run(form);
  } catch (error) {
    wrong.textContent = REASONS[error.name] ?? error.message;
    wrong.hidden = false;
  } finally {
    button.disabled = false;
  }
});
