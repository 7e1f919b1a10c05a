import { type ScoreSource, scoresOfTraces } from "./scores.ts";

/** The state of monitors that lives in this process (`ctx.state.monitors`). */
export class MonitorsState {
  /** A test replaces it. */
  scores: ScoreSource = scoresOfTraces;
}
