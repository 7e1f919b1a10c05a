import { join } from "node:path";
import { nodeOrBun } from "./objects.ts";
import { freePort, launch, mustFind, packages, scratch } from "./process.ts";
import type { GoogleServer } from "./servers.ts";

const projectId = "verk-test";

export async function startGcs(): Promise<GoogleServer> {
  mustFind("gcs", [packages("firebase-tools/lib/emulator/storage/server.js")]);
  const dir = scratch("gcs");
  const port = await launch({
    dir,
    signal: "SIGKILL",
    argv: (port) => [nodeOrBun(), join(import.meta.dir, "gcs_emulator.cjs"), packages(""), `${port}`],
    env: { TMPDIR: dir, HOME: dir, FIREBASE_CLI_DISABLE_UPDATE_CHECK: "1" },
    ready: async (port) => (await fetch(`http://127.0.0.1:${port}/b?project=${projectId}`)).ok,
  });
  return { url: `http://127.0.0.1:${port}`, projectId };
}

export async function startBigqueryLocal(): Promise<GoogleServer> {
  const program = mustFind("bigquery-local", [packages("bigquery-local/dist/cli.js")]);
  const dir = scratch("bigquery");
  const offline = join(import.meta.dir, "bigquery_offline.cjs");
  const grpc = `--grpc-port=${await freePort()}`;
  const port = await launch({
    dir,
    signal: "SIGKILL",
    argv: (port) => [nodeOrBun(), "--require", offline, program, `--project=${projectId}`, `--port=${port}`, grpc],
    env: { TMPDIR: dir, HOME: dir },
    ready: async (port) => (await fetch(`http://127.0.0.1:${port}/bigquery/v2/projects/${projectId}/datasets`)).ok,
  });
  return { url: `http://127.0.0.1:${port}`, projectId };
}
