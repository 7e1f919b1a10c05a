/** Removes every given credential from foreign texts. */

import type { Credentials } from "../../lib/source.ts";
import { REDACTED, redactText } from "../../lib/text/redact.ts";

export type Hide = (text: string) => string;

const SHORTEST_SECRET = 3;
/** These fields name the user and the server. Messages need them, so they are not hidden. */
const OPEN_NAMES = [
  ..."user username account_name client_email client_id project_id type".split(" "),
  ..."region endpoint path_style token_uri auth_uri universe_domain ca_cert".split(" "),
];

/** The whole text is searched before it is cut: half a secret would not be recognised. */
export function hiding(credentials: Credentials, longest: number): Hide {
  const secrets = textsOf(credentials)
    .filter((text) => text.length >= SHORTEST_SECRET)
    .flatMap((text) => [text, encodeURIComponent(text.toWellFormed()), JSON.stringify(text).slice(1, -1)])
    .sort((a, b) => b.length - a.length); // longest first: one may begin with another
  return (text) => {
    let clean = text;
    for (const secret of secrets) clean = clean.replaceAll(secret, REDACTED);
    return redactText(clean).slice(0, longest);
  };
}

function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, each]) => (OPEN_NAMES.includes(name) ? [] : textsOf(each)));
}
