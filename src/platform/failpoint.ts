/**
 * Named places where a test may stop the world: every commit, flush, file rename, spawn and outbound call.
 * They live in platform/ only, so a feature is fault-tested without knowing it.
 */
export const failpoints: { hit?: (name: string) => void } = {};
export const failpoint = (name: string) => failpoints.hit?.(name);

/**
 * `VERK_FAILPOINT=<name or *>:<n>`: the process kills itself with SIGKILL the n-th time it passes that point.
 * Called by main.ts alone, so that the compiled executable can be swept exactly as it ships.
 */
export function armFailpoint(spec: string | undefined) {
  if (!spec) return;
  const [name = "*", count = "1"] = spec.split(":");
  let left = Number(count);
  failpoints.hit = (at) => {
    if ((name === "*" || name === at) && --left === 0) process.kill(process.pid, "SIGKILL");
  };
}
