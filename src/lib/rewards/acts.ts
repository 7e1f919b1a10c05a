/** Acts of rollouts as a trainer sends them, with texts for objects, and their results. Pure. */
import type { Act, Acted } from "./contract.ts";

/** `row` and `arguments`: JSON texts of objects, which the trainer has checked. */
export type SentAct = {
  rollout: number;
  seed: number;
  act: Act["act"];
  row?: string | undefined;
  name?: string | undefined;
  arguments?: string | undefined;
};

export function actOf({ rollout, seed, act, row = "{}", name = "", arguments: given = "{}" }: SentAct): Act {
  const objectOf = (text: string) => JSON.parse(text) as Record<string, unknown>;
  if (act === "reset") return { rollout, seed, act, row: objectOf(row) };
  return act === "end" ? { rollout, seed, act } : { rollout, seed, act, name, arguments: objectOf(given) };
}

export const toldOf = ({ text, failed, fault }: Acted) => ({
  text,
  failed,
  error: fault && `the environment${fault.line === null ? "" : `, line ${fault.line}`}: ${fault.message}`,
});
