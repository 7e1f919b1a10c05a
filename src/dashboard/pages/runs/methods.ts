/** Methods that Verk trains with itself. */
export const METHODS = ["grpo", "rloo", "sft", "dpo", "kto", "orpo"] as const;
export type Method = (typeof METHODS)[number];

/** Methods whose model writes answers and learns from their rewards. */
export const REWARDED: readonly Method[] = ["grpo", "rloo"];
export const methodName = (method: string) => (method === "custom" ? "Custom command" : method.toUpperCase());

export const hasReward = (method: string) => REWARDED.some((each) => each === method);
