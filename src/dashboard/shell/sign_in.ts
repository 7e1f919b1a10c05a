/** Begins and ends the browser session. */

import type { BrowserSession } from "../../resources/access/browser_sessions/schema.ts";
import type { AcceptInvitation } from "../../resources/access/people/invitations/schema.ts";
import type { SignIn } from "../../resources/access/people/sign_in/schema.ts";
import { api } from "../data/api.ts";
import { startFeed, stopFeed } from "../data/events.ts";
import { forgetAll } from "../data/resource.ts";
import { session } from "../data/session.ts";

function begin(value: BrowserSession) {
  forgetAll();
  session.value = { is: "in", session: value };
  startFeed();
}

/** On load: the cookie of an earlier visit may still be good. */
export async function resume() {
  if (!document.cookie.includes("verk_signed_in=1")) {
    session.value = { is: "out", why: undefined };
    return;
  }
  try {
    begin(await api<BrowserSession>("/v1/browser_sessions/current"));
  } catch {
    session.value = { is: "out", why: undefined };
  }
}

/** Throws the server's error. The key itself is kept nowhere. */
export async function signIn(key: string) {
  const headers = { authorization: `Bearer ${key.trim()}` };
  begin(await api<BrowserSession>("/v1/browser_sessions", { method: "POST", headers }));
}

/** Throws the server's error. The password is kept nowhere. */
export async function signInWithPassword(body: SignIn) {
  begin(await api<BrowserSession>("/v1/logins", { method: "POST", body }));
}

/** Throws the server's error. */
export async function acceptInvitation(body: AcceptInvitation) {
  begin(await api<BrowserSession>("/v1/logins/invitations", { method: "POST", body }));
}

export async function signOut() {
  await api("/v1/browser_sessions/current", { method: "DELETE" }).catch(() => {});
  leave(undefined);
}

export function leave(why: string | undefined) {
  stopFeed();
  forgetAll();
  session.value = { is: "out", why };
}
