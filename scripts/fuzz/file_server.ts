/** A server on this machine that gets broken files over HTTP: it must answer each, never with a 5xx, and stay up. */
import { rmSync } from "node:fs";
import { startBinary } from "../../test/binary.ts";
import { makeKey } from "../../test/cli.ts";
import type { Mutant } from "./file_mutants.ts";
import type { Outcome, Target } from "./file_targets.ts";

/** An answer of the server itself when it is full: it says when to come again. */
const BUSY = 503;

export async function serverTarget(): Promise<Target> {
  const server = await startBinary({ args: [], env: { VERK_HTTP__RATE_LIMIT_PER_SECOND: "0", VERK_OFFLINE: "true" } });
  const { key } = await makeKey(server.dir);
  let peak = 0;
  const check = async () => {
    const status = await Bun.file(`/proc/${server.pid}/status`)
      .text()
      .catch(() => "");
    peak = Math.max(peak, Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1_024);
  };
  const call = (method: string, path: string, body: BodyInit, headers: Record<string, string> = {}) =>
    fetch(`${server.url}${path}`, {
      method,
      body,
      headers: { authorization: `Bearer ${key}`, "x-api-key": key, ...headers },
    });
  const json = (path: string, body: object) =>
    call("POST", path, JSON.stringify(body), { "content-type": "application/json" });
  const form = (bytes: Uint8Array, name: string) => {
    const fields = new FormData();
    fields.set("file", new Blob([new Uint8Array(bytes)]), name);
    fields.set("name", name);
    return fields;
  };

  async function sendModel(bytes: Uint8Array): Promise<Response> {
    const made = (await (await json("/v1/models", { name: crypto.randomUUID() })).json()) as { id: string };
    const upload = await json(`/v1/models/${made.id}/presigned-upload`, { files: [{ path: "m.gguf" }] });
    const { files } = (await upload.json()) as { files: { url: string }[] };
    const sent = await fetch(files[0]?.url ?? "", { method: "PUT", body: new Uint8Array(bytes) });
    if (!sent.ok) return sent;
    return await json(`/v1/models/${made.id}/complete`, {});
  }

  const send = ({ kind, ending, bytes }: Mutant): Promise<Response> => {
    if (kind === "gguf") return sendModel(bytes);
    if (kind === "archive") return call("POST", "/v1/code_artifacts", form(bytes, `code.${ending}`));
    if (kind === "rows") return call("POST", "/v1/datasets", form(bytes, "rows.jsonl"));
    return json("/api/detect", { image: Buffer.from(bytes).toString("base64") });
  };

  return {
    name: "server",
    async take(mutant): Promise<Outcome> {
      try {
        const { status } = await send(mutant);
        await check();
        if (status >= 500 && status !== BUSY) return { ended: "wrong", detail: `the server answered ${status}` };
        return { ended: status < 300 ? "accepted" : "refused", detail: String(status) };
      } catch (error) {
        const alive = await fetch(`${server.url}/healthz`).then(
          ({ ok }) => ok,
          () => false,
        );
        return { ended: alive ? "wrong" : "crashed", detail: `${error}\n${server.stderr().slice(-2_000)}` };
      }
    },
    peakBytes: () => peak,
    async close() {
      await check();
      await server.kill("SIGTERM");
      rmSync(server.dir, { recursive: true, force: true });
    },
  };
}
