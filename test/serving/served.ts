import { copyFileSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { makeKey } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { type ModelOptions, makeModel } from "../models.ts";
import { makeProjector, type ProjectorOptions } from "../projectors.ts";

/** `files`: made GGUF files by the name of their model. `settings`: of the server, as environment variables. */
type Options = {
  models?: Record<string, ModelOptions>;
  files?: Record<string, string>;
  /** Projectors for images by the name of their model. */
  projectors?: Record<string, ProjectorOptions>;
  settings?: Record<string, string>;
  args?: string[];
};
// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the server answered
type Json = any;

/**
 * Starts the executable with models of random weights in its folder, on one thread, so that tests share the machine.
 */
export async function startServing({
  models = {},
  files = {},
  projectors = {},
  settings = {},
  args = [],
}: Options = {}) {
  const dir = tempDir();
  const made = tempDir();
  mkdirSync(join(dir, "models"), { recursive: true, mode: 0o700 });
  for (const [name, options] of Object.entries(models))
    copyFileSync(makeModel(made, options), join(dir, "models", `${name}.gguf`));
  for (const [name, options] of Object.entries(projectors))
    copyFileSync(makeProjector(made, options), join(dir, "models", `${name}.mmproj`));
  rmSync(made, { recursive: true });
  for (const [name, path] of Object.entries(files)) copyFileSync(path, join(dir, "models", `${name}.gguf`));
  const env = { VERK_SERVING__THREADS: "1", VERK_HTTP__RATE_LIMIT_PER_SECOND: "0", ...settings };
  let server = await startBinary({ dir, args, env });
  const { key } = await makeKey(dir);

  const call = async (method: string, path: string, json?: unknown): Promise<{ status: number; body: Json }> => {
    const answer = await fetch(`${server.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    });
    return { status: answer.status, body: await answer.json() };
  };
  const get = async (path: string) => (await call("GET", path)).body;
  const reaches = (id: string, status: string) =>
    until(
      `${id} to be ${status}`,
      async () => {
        const body = await get(`/v1/deployments/${id}`);
        if (body.status === "failed" && status !== "failed") throw new Error(body.error);
        return body.status === status ? body : undefined;
      },
      120_000,
    );
  return {
    dir,
    key,
    get url() {
      return server.url;
    },
    get pid() {
      return server.pid;
    },
    call,
    get,
    reaches,
    /** Makes a deployment and waits until it serves. */
    async deploy(settings: { model: string; name: string } & Record<string, unknown>): Promise<string> {
      const waiting = async () => {
        const answer = await call("POST", "/v1/deployments", settings);
        if (answer.status === 404) return undefined; // the server has not scanned the folder yet
        if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
        return answer.body.id as string;
      };
      const id = await until(`the model ${settings.model} to be known`, waiting);
      await reaches(id, "serving");
      return id;
    },
    events: async (id: string): Promise<string[]> =>
      (await get("/v1/events?limit=100")).data
        .filter((event: Json) => event.data.id === id)
        .map((event: Json) => event.type),
    /** Pids of the processes that hold a model. */
    workers: (): number[] =>
      readdirSync("/proc")
        .filter((name) => isWorkerOf(name, dir))
        .map(Number),
    kill: () => server.kill("SIGKILL"),
    async restart(binary?: string) {
      server = await startBinary({ dir, args, env, binary });
    },
    async stop() {
      await server.kill("SIGTERM");
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** True for a worker: it runs in the folder of its server. */
function isWorkerOf(name: string, dir: string): boolean {
  try {
    const argv = readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0");
    return argv.join(" ").includes("worker serving") && readlinkSync(`/proc/${name}/cwd`).startsWith(dir);
  } catch {
    return false; // the process has just ended, or never was
  }
}
