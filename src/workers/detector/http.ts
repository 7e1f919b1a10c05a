/** The worker's HTTP interface on its unix socket: `POST /score`, `POST /pixels`, `GET /health`, `GET /stats`. */

import { CLIENT_LEFT_STATUS, ClientLeft } from "../../lib/net/client_left.ts";
import { pathOf, queryOf } from "../../lib/net/request_target.ts";
import { MODELS, ModelName, type Refused } from "../protocol_detector.ts";
import { readPixels } from "./image/pixels.ts";
import { Refusal } from "./refusal.ts";
import { score } from "./score.ts";
import type { World } from "./world.ts";

const MAX_BYTES = 10 << 20; // the server in front enforces the same limit
const SLACK_BYTES = 1_000_000; // read a little more, so that this worker writes the error

export type Fetch = (request: Request) => Promise<Response>;

export function listen(unix: string, fetch: Fetch) {
  // Bun supports this option for sockets, but its types do not.
  const options = { unix, fetch, idleTimeout: 0, maxRequestBodySize: MAX_BYTES + SLACK_BYTES };
  return Bun.serve(options as unknown as Bun.Serve.Options<undefined>);
}

export function createRequestHandler(world: World): Fetch {
  return async (request) => {
    const [path, query] = [pathOf(request), queryOf(request)];
    if (request.method === "GET" && path === "/health") return Response.json({ ok: true });
    if (request.method === "GET" && path === "/stats") return Response.json(statsOf(world));
    const isPixels = path === "/pixels";
    if (request.method !== "POST" || !(isPixels || path === "/score"))
      return new Response("no such route", { status: 404 });
    try {
      if (isPixels) {
        const side = Number(query.get("side"));
        const { pixels, width, height } = await readPixels(world, await bodyOf(request), side, request.signal);
        return new Response(Buffer.from(pixels), { headers: { "x-width": String(width), "x-height": String(height) } });
      }
      const models = modelsOf(query.get("models"));
      const asks = (name: string) => query.get(name) === "1";
      const options = {
        models,
        robustness: asks("robustness"),
        heatmap: asks("heatmap"),
        features: asks("features"),
        signal: request.signal,
      };
      return Response.json(await score(world, await bodyOf(request), options));
    } catch (error) {
      return answerFor(error);
    }
  };
}

function modelsOf(list: string | null): ModelName[] {
  const names = [...new Set((list ?? "").split(",").filter((name) => name !== ""))];
  const models = names.map((name) => {
    const parsed = ModelName.safeParse(name);
    if (parsed.success) return parsed.data;
    throw new Refusal(
      "UNKNOWN_MODEL",
      `The model ${name.slice(0, 100)} does not exist. Use one of ${MODELS.join(", ")}`,
    );
  });
  if (models.length > 0) return models;
  throw new Refusal("UNKNOWN_MODEL", `models is empty. Use one of ${MODELS.join(", ")}`);
}

async function bodyOf(request: Request): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await request.bytes();
  if (bytes.length === 0) throw new Refusal("INVALID_IMAGE", "The file is empty");
  if (bytes.length > MAX_BYTES) throw new Refusal("IMAGE_TOO_LARGE", "The file is larger than 10 MB");
  return bytes;
}

function answerFor(error: unknown): Response {
  if (error instanceof Refusal) {
    const refused: Refused = { code: error.code, error: error.message };
    return Response.json(refused, { status: 422 });
  }
  if (error instanceof ClientLeft) return new Response(null, { status: CLIENT_LEFT_STATUS });
  console.error(error instanceof Error ? error.stack : error);
  return Response.json({ error: "The detector failed. The server's log has the details" }, { status: 500 });
}

const statsOf = ({ lanes, gate }: World) => ({
  ...lanes.stats,
  held_bytes: gate.used,
  rss_bytes: process.memoryUsage.rss(),
});
