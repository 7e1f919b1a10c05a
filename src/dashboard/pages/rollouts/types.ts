export type { Rollout, RolloutTurn as Turn } from "../../../resources/serving/rollouts/schema.ts";
