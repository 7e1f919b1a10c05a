/** Where a volume may appear in a session. */

const WORKSPACE = "/workspace";
/** What the session itself has, or what programs look for there. */
const TAKEN = ["bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "proc", "sys", "dev", "tmp", "run"];
const MOST_BYTES = 512;

export const isInWorkspace = (path: string) => path.startsWith(`${WORKSPACE}/`);

/** What is wrong with it, in words. */
export function mountPathFault(path: string): string | undefined {
  const [first, ...parts] = path.split("/");
  if (first !== "" || parts.length === 0) return "must be an absolute path such as /data or /workspace/data";
  if (parts.some((part) => part === "" || part === "." || part === ".."))
    return "must be written without //, ., .. and a slash at its end";
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
  if (/[\u0000-\u001f\u007f]/.test(path) || !path.isWellFormed()) return "must not contain control characters";
  if (Buffer.byteLength(path) > MOST_BYTES) return `takes at most ${MOST_BYTES} bytes`;
  if (path === WORKSPACE) return "is the session's own directory: mount below it, such as /workspace/data";
  if (TAKEN.includes(parts[0] as string))
    return `hides what the session has in /${parts[0]}: use /data or /workspace/data`;
  return undefined;
}

/** The first that is another's, or lies in it. */
export function collision(paths: readonly string[]): number | undefined {
  const at = paths.findIndex((path, i) =>
    paths.some((other, j) => j !== i && (path === other ? j < i : path.startsWith(`${other}/`))),
  );
  return at < 0 ? undefined : at;
}
