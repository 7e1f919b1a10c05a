/** Methods that Verk trains with itself. */
export const METHODS = ["grpo", "rloo", "distill", "sft", "dpo", "kto", "orpo"] as const;
export type Method = (typeof METHODS)[number];

/** Methods whose model writes answers and learns from their rewards, or from a teacher. */
export const REWARDED: readonly Method[] = ["grpo", "rloo", "distill"];
const WORDS: Readonly<Record<string, string>> = { custom: "Custom command", distill: "Distillation" };
export const methodName = (method: string) => WORDS[method] ?? method.toUpperCase();

export const hasReward = (method: string) => REWARDED.some((each) => each === method);
