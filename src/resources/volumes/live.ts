/** The state of volumes, their uploads and stored content that lives in this process (`ctx.state.volumes`). */
export class VolumesState {
  /** When the storage was last searched for files that were sent to it directly. */
  searchedAt = 0;
  /** Upload → its completion under way, by a client or by the loop. */
  readonly completing = new Map<string, Promise<unknown>>();
}
