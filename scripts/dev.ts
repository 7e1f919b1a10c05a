/**
 * scripts/dev.ts [serve flags]: runs the server from source on a temporary data directory and restarts it after every
 * change.
 */
import { mkdtempSync, rmSync, watch } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { buildShim } from "./bundle/shim.ts";

const root = dirname(import.meta.dir);
buildShim(root); // the server from source loads it from .stage
const dir = mkdtempSync(join(tmpdir(), "verk-dev-"));
const flags = process.argv.slice(2);
const argv = [
  process.execPath,
  join(root, "src/main.ts"),
  "serve",
  ...(flags.includes("--data") ? [] : ["--data", dir]),
  ...flags,
];
const SETTLE_MS = 50; // an editor writes a file in several steps

let changed = Promise.withResolvers<void>();
let stopping = false;
let child: Bun.Subprocess | undefined;
let settle: Timer | undefined;
// Not bun --watch: it would keep running after Ctrl-C has stopped the server.
const watcher = watch(join(root, "src"), { recursive: true }, () => {
  clearTimeout(settle);
  settle = setTimeout(changed.resolve, SETTLE_MS);
});
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.on(signal, () => {
    stopping = true;
    child?.kill(signal);
    changed.resolve();
  });

try {
  while (!stopping) {
    changed = Promise.withResolvers();
    child = Bun.spawn(argv, {
      cwd: root,
      env: { VERK_LOG__FORMAT: "text", VERK_LOG__LEVEL: "debug", ...process.env },
      stdio: ["inherit", "inherit", "inherit"],
    });
    await changed.promise; // after a crash, the next change restarts the server
    child.kill("SIGTERM");
    await child.exited;
  }
} finally {
  watcher.close();
  rmSync(dir, { recursive: true, force: true });
}
