/** Acts of rollouts as a trainer sends them, with texts for objects, and their results. Pure. */
import { isObject } from "../json/object.ts";
import type { Act, Acted } from "./contract.ts";

/** `row` and `arguments`: JSON texts of objects. */
export type SentAct = {
  rollout: number;
  seed: number;
  act: Act["act"];
  row?: string | undefined;
  name?: string | undefined;
  arguments?: string | undefined;
};

export function actOf({ rollout, seed, act, row = "{}", name = "", arguments: given = "{}" }: SentAct): Act {
  if (act === "reset") return { rollout, seed, act, row: objectOf(row) };
  return act === "end" ? { rollout, seed, act } : { rollout, seed, act, name, arguments: objectOf(given) };
}

function objectOf(text: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text);
  if (!isObject(value)) throw new TypeError("a trainer sent an act without an object");
  return value;
}

export const toldOf = ({ text, failed, fault }: Acted) => ({
  text,
  failed,
  error: fault && `the environment${fault.line === null ? "" : `, line ${fault.line}`}: ${fault.message}`,
});
