/**
 * The area of a route. `account` covers keys, secrets and settings: a narrow key must not create a wide one. `self` is
 * for every key: it describes the key itself. `session` is for every key too: it signs in and out. `annotate` is the
 * work on the items of annotation queues; the scope `training` opens it too. `files` holds the inputs of
 * batches and of fine-tuning, so keys for inference and for training use it.
 */
export type Area =
  | "inference"
  | "training"
  | "detect"
  | "metrics"
  | "annotate"
  | "files"
  | "account"
  | "self"
  | "session"
  | "admin";

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
  return scopes.includes(area) || (area === "annotate" && scopes.includes("training"));
}

/** True if `wanted` gives nothing that `held` lacks: a key may create only keys as narrow as itself. */
export const within = (wanted: readonly string[], held: readonly string[]) =>
  held.includes("admin") || wanted.every((scope) => held.includes(scope) || (scope !== "admin" && held.includes("*")));

/** The part of `scopes` that lies within `held`. A wide scope becomes all of `held`. */
export function narrow<S extends string>(scopes: readonly S[], held: readonly S[]): S[] {
  if (within(scopes, held)) return [...scopes];
  if (scopes.some((scope) => scope === "*" || scope === "admin")) return [...held];
  return scopes.filter((scope) => within([scope], held));
}
