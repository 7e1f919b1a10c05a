declare module "../../../context.ts" {
  interface State {
    readonly uploads: UploadsState;
  }
}

/** Live state of the uploads. */
export class UploadsState {
  /** Uploads that this process receives. Another row with the status `receiving` was left by a kill or a lost commit. */
  readonly receiving = new Set<string>();
}
