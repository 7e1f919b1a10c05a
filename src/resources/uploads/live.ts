/** The state of uploads that lives in this process (`ctx.state.uploads`). */
export class UploadsState {
  /** Uploads that are being received. A row `receiving` that is not here was left by a kill or a lost commit. */
  readonly receiving = new Set<string>();
}
