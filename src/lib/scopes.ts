/**
 * The area of a route. `account` covers keys, secrets and settings: a narrow key must not create a wide one. `self` is
 * for every key: it describes the key itself. `session` is for every key too: it signs in and out. `files` holds the
 * inputs of batches and of fine-tuning, so both kinds of keys use it.
 */
export type Area = "inference" | "training" | "detect" | "metrics" | "account" | "self" | "session" | "admin" | "files";

/**
 * True if a key with these scopes may do this. `*` is everything inside its own workspace; `admin` adds the workspaces
 * themselves; `read` reads everything but those; the others read and write their own area.
 */
export function allows(scopes: readonly string[], area: Area, reads: boolean): boolean {
  if (scopes.includes("admin") || area === "session") return true;
  if (area === "admin") return false;
  if (scopes.includes("*")) return true;
  if (reads && (area === "self" || scopes.includes("read"))) return true;
  if (area === "files") return scopes.includes("inference") || scopes.includes("training");
  return scopes.includes(area);
}

/** True if `wanted` gives nothing that `held` lacks: a key may create only keys as narrow as itself. */
export const within = (wanted: readonly string[], held: readonly string[]) =>
  held.includes("admin") || wanted.every((scope) => held.includes(scope) || (scope !== "admin" && held.includes("*")));
