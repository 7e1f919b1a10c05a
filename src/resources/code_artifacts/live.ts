import { Semaphore } from "../../platform/semaphore.ts";

/** The state of code artifacts that lives in this process (`ctx.state.codeArtifacts`). */
export class CodeArtifactsState {
  /** One archive is read at a time, in fair turns by workspace. */
  readonly inspections = new Semaphore({ permits: 1 });
}
