// Passkeys: ask the service for a challenge, the browser for an answer, and send the form with it.
import { t } from "./words.js";

/** The address of the options, and the call of the browser, by what the form is for. */
const KINDS = {
  new: { options: "/account/passkeys/options", ask: create },
  "sign-in": { options: "/signin/passkey/options", ask: get },
  second: { options: "/signin/passkey/options", ask: get },
};

// Browsers read and write the JSON themselves (WebAuthn level 3, 5.1).
async function create(given) {
  return navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(given) });
}

async function get(given) {
  return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(given) });
}

async function run(form) {
  const { options, ask } = KINDS[form.dataset.passkey];
  const body = new URLSearchParams({ csrfmiddlewaretoken: form.elements.csrfmiddlewaretoken.value });
  if (form.dataset.passkey === "second") body.set("second", "yes");
  const found = await fetch(options, { method: "POST", body, credentials: "same-origin" });
  const given = await found.json().catch(() => ({}));
  if (given.again) return location.assign(given.again);
  if (!found.ok) throw new Error(given.message ?? t("The service did not answer."));
  form.elements.credential.value = JSON.stringify(await ask(given));
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
    if (!PublicKeyCredential.parseRequestOptionsFromJSON) throw new Error(t("This browser is too old for passkeys here. Update it, or sign in in another way."));
    await run(form);
  } catch (error) {
    wrong.textContent = REASONS[error.name] ?? error.message;
    wrong.hidden = false;
  } finally {
    button.disabled = false;
  }
});
