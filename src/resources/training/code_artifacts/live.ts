import { Semaphore } from "../../../platform/semaphore.ts";

declare module "../../../context.ts" {
  interface State {
    readonly codeArtifacts: CodeArtifactsState;
  }
}

/** The state of code artifacts that lives in this process (`ctx.state.codeArtifacts`). */
export class CodeArtifactsState {
  /** Archives that are read at the same time. */
  readonly inspections = new Semaphore({ name: "archives", permits: 3 });
}
