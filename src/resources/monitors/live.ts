import type { Ctx } from "../../context.ts";

/** `since` counts, `until` does not. `deploymentId`: null for all deployments of the workspace. */
export type ScoreQuery = {
  workspaceId: string;
  deploymentId: string | null;
  name: string;
  since: number;
  until: number;
  /** The newest ones, at most this many. */
  limit: number;
};
/** Values of a score. Booleans count as 0 and 1. */
export type ScoreSource = (ctx: Ctx, query: ScoreQuery) => number[];

/** The state of monitors that lives in this process (`ctx.state.monitors`). */
export class MonitorsState {
  /** A test replaces it. */
  scores: ScoreSource = () => [];
}
