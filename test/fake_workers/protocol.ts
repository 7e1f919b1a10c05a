import { z } from "zod";
import { fromWorker } from "../../src/workers/protocol.ts";

export const FromFake = fromWorker([
  z.strictObject({ type: z.literal("echo"), text: z.string() }),
  z.strictObject({ type: z.literal("serving") }),
  z.strictObject({ type: z.literal("spawned"), pid: z.int() }),
  z.strictObject({ type: z.literal("environment"), entries: z.array(z.string()) }),
]);
export type FromFake = z.infer<typeof FromFake>;

export const ToFake = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("echo"), text: z.string() }),
  z.strictObject({ type: z.literal("finish") }),
]);
export type ToFake = z.infer<typeof ToFake>;
