/** The state of regions that lives in this process (`ctx.state.regions`). */
export class RegionsState {
  gpuTypes: string[] = [];
  /** Time of the last listing, successful or not. */
  listedAt = Number.NEGATIVE_INFINITY;
  listing: Promise<void> | undefined;
}
