/** The state of regions that lives in this process (`ctx.state.regions`). */
export class RegionsState {
  gpuTypes: string[] = [];
  /** When the GPUs were last listed, or could not be. */
  listedAt = Number.NEGATIVE_INFINITY;
  listing: Promise<void> | undefined;
}
