/** Checks the paths at which volumes are mounted in a session. */

const WORKSPACE = "/workspace";
/** Directories that the session has itself, or that programs expect. */
const RESERVED = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "proc", "sys", "dev", "tmp", "run"];
const MOST_BYTES = 512;

export const isInWorkspace = (path: string) => path.startsWith(`${WORKSPACE}/`);

/** Returns what is wrong with the path, or undefined if it is valid. */
export function mountPathFault(path: string): string | undefined {
  const [first, ...parts] = path.split("/");
  if (first !== "" || parts.length === 0) return "must be an absolute path such as /data or /workspace/data";
  if (parts.some((part) => part === "" || part === "." || part === ".."))
    return "must not contain //, . or .., nor end with a slash";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
  if (/[\u0000-\u001f\u007f]/.test(path) || !path.isWellFormed()) return "must not contain control characters";
  if (Buffer.byteLength(path) > MOST_BYTES) return `must have at most ${MOST_BYTES} bytes`;
  if (path === WORKSPACE) return "is the session's own directory: use a path below it, such as /workspace/data";
  if (RESERVED.includes(parts[0] as string))
    return `would hide /${parts[0]} of the session: use a path such as /data or /workspace/data`;
  return undefined;
}

/** Index of the first path that is equal to, or below, another one. */
export function collision(paths: readonly string[]): number | undefined {
  const at = paths.findIndex((path, i) =>
    paths.some((other, j) => j !== i && (path === other ? j < i : path.startsWith(`${other}/`))),
  );
  return at < 0 ? undefined : at;
}
