/** Runs a program as an unprivileged user if the tests run as root, else as the current user. */
export const NOBODY = 65534;

export const isRoot = process.getuid?.() === 0;

export const asNobody = (argv: readonly string[]): string[] =>
  isRoot ? ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups", ...argv] : [...argv];
