/** Runs a program as the user nobody when the tests run as root; as whoever they run as otherwise. */
export const NOBODY = 65534;

export const isRoot = process.getuid?.() === 0;

export const asNobody = (argv: readonly string[]): string[] =>
  isRoot ? ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups", ...argv] : [...argv];
