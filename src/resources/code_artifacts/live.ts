/** The state of code artifacts that lives in this process (`ctx.state.codeArtifacts`). */
export class CodeArtifactsState {
  /** The last inspection in the queue: one archive is read at a time. */
  lastInspection: Promise<unknown> = Promise.resolve();
}
