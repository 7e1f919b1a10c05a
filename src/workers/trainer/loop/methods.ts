/** The methods of training by name. */
import type { Method as MethodName } from "../../../lib/training/fields.ts";
import { distill, grpo, rloo } from "./grpo.ts";
import { kto } from "./kto.ts";
import { dpo, orpo } from "./pairs.ts";
import { sft } from "./sft.ts";
import type { MethodKind } from "./types.ts";

export const METHODS: Readonly<Record<MethodName, MethodKind>> = { grpo, rloo, distill, sft, dpo, kto, orpo };
