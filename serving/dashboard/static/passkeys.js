// SPDX-License-Identifier: MIT
// Forms with data-passkey get their field `credential` from an authenticator before they are sent: `get` logs in,
// `create` makes a passkey. Without this file, or without WebAuthn, what is around the forms stays
// hidden, and the password works.
"use strict";

function bytesOf(text) {
  return Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
}

function textOf(buffer) {
  const text = btoa(String.fromCharCode(...new Uint8Array(buffer)));
  return text.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

// JSON has base64url where the browser's functions take and give bytes.
function optionsOf(json) {
  const listed = (keys) => (keys || []).map((key) => ({ ...key, id: bytesOf(key.id) }));
  const options = { ...json, challenge: bytesOf(json.challenge) };
  if (json.user) options.user = { ...json.user, id: bytesOf(json.user.id) };
  if (json.excludeCredentials) options.excludeCredentials = listed(json.excludeCredentials);
  if (json.allowCredentials) options.allowCredentials = listed(json.allowCredentials);
  return options;
}

function jsonOf(credential) {
  const response = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (credential.response[name]) response[name] = textOf(credential.response[name]);
  }
  return JSON.stringify({ id: credential.id, rawId: textOf(credential.rawId), type: credential.type, response });
}

// What the form sends now, without the credential.
async function credentialFor(form) {
  const fields = new URLSearchParams(new FormData(form));
  const answer = await fetch(form.dataset.options, { method: "POST", body: fields, credentials: "same-origin" });
  if (!answer.ok) {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    throw new Error(page.querySelector(".notice.bad")?.textContent || `The registry answered ${answer.status}.`);
  }
  const publicKey = optionsOf(await answer.json());
  return navigator.credentials[form.dataset.passkey]({ publicKey });
}

async function send(form) {
  const notice = form.querySelector(".notice");
  const button = form.querySelector("button");
  notice.hidden = true;
  button.disabled = true;
  try {
    form.elements.credential.value = jsonOf(await credentialFor(form));
    form.submit();
  } catch (error) {
    notice.textContent = error.name === "NotAllowedError" ? "No passkey was given. Try again." : error.message;
    notice.hidden = false;
    button.disabled = false;
  }
}

addEventListener("DOMContentLoaded", () => {
  if (!window.PublicKeyCredential) return;
  document.querySelectorAll("form[data-passkey]").forEach((form) => {
    form.parentElement.hidden = false;
    form.addEventListener("submit", (event) => { event.preventDefault(); send(form); });
  });
});
