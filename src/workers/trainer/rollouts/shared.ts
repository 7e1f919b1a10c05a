/** Parts of both rollers. */
import { closeSync } from "node:fs";
import { memoryFile } from "../../../native/jail/jail.ts";
import { ContextOverflow } from "../../serving/engine/types.ts";
import type { RolloutRequest, RolloutSampling } from "./types.ts";

/** Returns a function that runs calls one after the other. */
export function inTurn() {
  let last: Promise<unknown> = Promise.resolve();
  return <T>(act: () => Promise<T>): Promise<T> => {
    const result = last.then(act);
    last = result.catch(() => {});
    return result;
  };
}

export function mustFit(requests: readonly RolloutRequest[], { maxTokens }: RolloutSampling, contextLength: number) {
  for (const { prompt, samples } of requests) {
    if (prompt.length === 0 || samples < 1 || maxTokens < 1)
      throw new RangeError("a prompt has no tokens, or samples or maxTokens are below 1");
    if (prompt.length >= contextLength) throw new ContextOverflow(prompt.length, maxTokens, contextLength);
  }
}

/** Offers bytes at a path that only this process can open, until `use` returns. Mapped memory stays valid. */
export async function inMemory(bytes: Uint8Array, use: (path: string) => Promise<void>): Promise<void> {
  const fd = memoryFile(bytes);
  try {
    await use(`/proc/self/fd/${fd}`);
  } finally {
    closeSync(fd);
  }
}
