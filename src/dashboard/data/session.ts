/** The browser session: signed in, signed out, or not known yet. The cookie itself is out of reach of this code. */
import { signal } from "@preact/signals";
import type { BrowserSession } from "../../resources/access/browser_sessions/schema.ts";

export type SessionState =
  | { is: "unknown" }
  /** `why`: the server's reason, if it ended the session. */
  | { is: "out"; why: string | undefined }
  | { is: "in"; session: BrowserSession };

export const session = signal<SessionState>({ is: "unknown" });

export const csrfToken = (): string | undefined =>
  session.value.is === "in" ? session.value.session.csrf_token : undefined;

/** True if the key of the session has a scope that opens `area`. Hides what the server would refuse. */
export function may(area: "training" | "inference" | "detect" | "account" | "admin", reads = true): boolean {
  if (session.value.is !== "in") return false;
  const scopes: readonly string[] = session.value.session.key.scopes;
  if (scopes.includes("admin")) return true;
  if (area === "admin") return false;
  return scopes.includes("*") || (reads && scopes.includes("read")) || scopes.includes(area);
}
