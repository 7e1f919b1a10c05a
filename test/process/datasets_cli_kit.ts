import { afterAll, beforeAll } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startBinary, untilTinyIsReady } from "../binary.ts";
import { runVerk, spawnVerk } from "../cli.ts";
import { tempDir } from "../harness.ts";

type Options = { stdin?: string | ReadableStream; env?: Record<string, string>; dir?: string };

/** A server for the tests of one file, `verk datasets` beside it, and a directory with the files of the user. */
export function datasetsCli() {
  const root = tempDir();
  let server: Awaited<ReturnType<typeof startBinary>>;
  beforeAll(async () => {
    server = await startBinary();
    await untilTinyIsReady(server.url, await server.apiKey());
  }, 120_000);
  afterAll(async () => {
    await server.kill();
    for (const dir of [root, server.dir]) rmSync(dir, { recursive: true, force: true });
  });
  const options = ({ stdin, env = {}, dir = server.dir }: Options) => ({
    cwd: root,
    stdin,
    env: { VERK_DATA: dir, ...env },
  });
  return {
    root,
    server: () => server,
    spawn: (args: string[], more: Options = {}) => spawnVerk(["datasets", ...args], options(more)),
    verk: (args: string[], more: Options = {}) => runVerk(["datasets", ...args], options(more)),
    /** Writes a file of text, or of rows as JSON lines. Returns its path. */
    file(name: string, content: string | object[]): string {
      const path = join(root, name);
      const lines = typeof content === "string" ? content : content.map((row) => `${JSON.stringify(row)}\n`).join("");
      writeFileSync(path, lines);
      return path;
    },
  };
}
