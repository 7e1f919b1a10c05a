/** scripts/dev.ts [serve flags]: the server from source, restarted on every change, on a data directory that goes away. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const root = dirname(import.meta.dir);
const dir = mkdtempSync(join(tmpdir(), "verk-dev-"));
const given = process.argv.slice(2);
const data = given.includes("--data") ? [] : ["--data", dir];
const child = Bun.spawn(
  [process.execPath, "--watch", "--no-clear-screen", join(root, "src/main.ts"), "serve", ...data, ...given],
  {
    cwd: root,
    env: { VERK_LOG__FORMAT: "text", VERK_LOG__LEVEL: "debug", ...process.env },
    stdio: ["inherit", "inherit", "inherit"],
  },
);
// Ctrl-C reaches the child by itself; staying alive until it has stopped is what keeps the directory in place.
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
const code = await child.exited;
rmSync(dir, { recursive: true, force: true });
process.exit(code);
