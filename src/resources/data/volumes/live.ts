declare module "../../../context.ts" {
  interface State {
    readonly volumes: VolumesState;
  }
}

/** Live state of the volumes. */
export class VolumesState {
  /** Time of the last search for files that clients sent directly to the storage. */
  searchedAt = 0;
  /** Completions in progress by upload id. A client or the loop may have started them. */
  readonly completing = new Map<string, Promise<unknown>>();
}
