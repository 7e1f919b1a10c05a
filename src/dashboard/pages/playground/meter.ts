/** How much of the context a conversation fills. Pure. */
import { count } from "../../data/format.ts";
import type { Turn } from "./tree.ts";

/** Tokens of the conversation down to its last answer, as the server counted them. Undefined: nothing was answered. */
export function tokensOf(path: readonly Turn[]): number | undefined {
  const last = path.findLast((turn) => turn.role === "assistant" && turn.answer.usage !== undefined);
  return last?.role === "assistant" ? last.answer.usage?.total_tokens : undefined;
}

export type Meter = { share: number; tone: "good" | "warn" | "bad"; words: string };

const WARN = 0.75;
const FULL = 0.95;

/** `context`: the tokens that the deployment gives each conversation. */
export function meterOf(tokens: number | undefined, context: number | null | undefined): Meter | undefined {
  if (tokens === undefined || !context) return undefined;
  const share = Math.min(1, tokens / context);
  const words = `${count(tokens)} of ${count(context)} tokens`;
  return { share, tone: share >= FULL ? "bad" : share >= WARN ? "warn" : "good", words };
}
