/**
 * A detector without models, for tests. The script file holds a list of lives, one for each start; the last applies to
 * all further starts. Every start adds a line to `<script>.starts`. A file under test carries its own instructions:
 * JSON after its first bytes, of type `Instructions`.
 */
import { appendFileSync, existsSync, readFileSync, rmSync } from "node:fs";
import { queryOf } from "../../src/lib/net/request_target.ts";
import { runHosted } from "../../src/workers/host.ts";
import {
  type FromDetector,
  type Media,
  MODELS,
  type ModelName,
  type ModelResult,
  Refused,
  type Scored,
  ToDetector,
} from "../../src/workers/protocol_detector.ts";

export type DetectorLife = {
  /** Fails instead of opening. */
  fail?: "crash";
  version?: string;
};
export type Instructions = {
  /** Score of all models, or of each. */
  score?: number | Partial<Record<ModelName, number>>;
  metadata?: Scored["signals"]["metadata"];
  /** These models fail with these messages. */
  errors?: Partial<Record<ModelName, string>>;
  refuse?: Refused;
  /** Ends the process: always, or once, and then deletes this file. */
  die?: true | string;
  /** Answers only when this file exists. */
  gate?: string;
  /** Answers outside the protocol. */
  lie?: true;
};

export const runFakeDetector = (script: string) =>
  runHosted<ToDetector, FromDetector>(ToDetector, async (host) => {
    for await (const _open of host.messages) {
      const life = begin(script);
      if (life.fail === "crash") process.kill(process.pid, "SIGKILL");
      const versions = Object.fromEntries(MODELS.map((model) => [model, life.version ?? "1"]));
      Bun.serve({
        unix: host.socketPath,
        maxRequestBodySize: 1e9,
        fetch: (request) => answer(request, versions, script),
      });
      host.send({ type: "opened", versions });
    }
  });

function begin(script: string): DetectorLife {
  appendFileSync(`${script}.starts`, `${process.pid}\n`);
  const starts = readFileSync(`${script}.starts`, "utf8").trim().split("\n").length;
  const lives = JSON.parse(readFileSync(script, "utf8")) as DetectorLife[];
  return lives[Math.min(starts, lives.length) - 1] ?? {};
}

async function answer(request: Request, versions: Scored["versions"], script: string): Promise<Response> {
  const bytes = new Uint8Array(await request.arrayBuffer());
  const query = queryOf(request);
  const models = (query.get("models") ?? "").split(",") as ModelName[];
  const wish = instructionsOf(bytes);
  appendFileSync(`${script}.scored`, `${models.join()}\n`);
  const dies = wish.die === true || (wish.die !== undefined && existsSync(wish.die));
  if (typeof wish.die === "string") rmSync(wish.die, { force: true });
  if (dies) process.kill(process.pid, "SIGKILL");
  while (wish.gate !== undefined && !existsSync(wish.gate)) await Bun.sleep(2);
  if (wish.lie) return Response.json({ nonsense: true });
  if (wish.refuse) return Response.json(Refused.parse(wish.refuse), { status: 422 });
  const result = (model: ModelName): ModelResult => {
    const error = wish.errors?.[model];
    if (error !== undefined) return { score: null, status: "error", latency_ms: 1, error };
    const score = typeof wish.score === "object" ? wish.score[model] : wish.score;
    return { score: score ?? 0.5, status: "success", latency_ms: 1, error: null };
  };
  const score = typeof wish.score === "number" ? wish.score : 0.5;
  const range = { lowest: score, highest: score, views: [{ view: "jpeg_60", score }], flips: false };
  return Response.json({
    media: mediaOf(models),
    models: Object.fromEntries(models.map((model) => [model, result(model)])),
    versions: Object.fromEntries(models.map((model) => [model, versions[model] ?? "1"])),
    signals: {
      c2pa: null,
      metadata: wish.metadata ?? { software: null, camera: null, generator: null },
      robustness: query.get("robustness") === "1" ? range : null,
    },
  } satisfies Scored);
}

const mediaOf = ([first]: readonly ModelName[]): Media =>
  first === "detector_audio_v0"
    ? { kind: "audio", format: "wav", seconds: 1, sample_rate: 16_000, channels: 1 }
    : { kind: "image", format: "jpeg", width: 640, height: 480, frames: 1 };

function instructionsOf(bytes: Uint8Array): Instructions {
  const text = new TextDecoder().decode(bytes);
  try {
    return JSON.parse(text.slice(text.indexOf("{"))) as Instructions;
  } catch {
    return {};
  }
}
