import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Ctx } from "../src/context.ts";
import { register } from "../src/resources/serving/models/files/folder.ts";
import type { Answer } from "../src/resources/serving/models/files/inspector.ts";

/** Hash of a file → what the inspector said of it. */
const inspected = new Map<number | bigint, Answer>();

/**
 * Registers <data>/models/random.gguf, which most tests have and which is always the same. Only the first application of
 * a test process starts an inspector for it.
 */
export async function registerRandom(ctx: Ctx) {
  const path = "models/random.gguf";
  const hash = Bun.hash(readFileSync(join(ctx.config.data_dir, path)));
  const { headers } = ctx.state.models;
  const ask = headers.ask.bind(headers);
  headers.ask = async (...question) => {
    const answer = inspected.get(hash) ?? (await ask(...question));
    if (!("ok" in answer)) inspected.set(hash, answer);
    return answer;
  };
  try {
    await register(ctx, { name: "random", path });
  } finally {
    headers.ask = ask;
  }
}
