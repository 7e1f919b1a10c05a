/** The state of regions that lives in this process (`ctx.state.regions`). */
export class RegionsState {
  gpuTypes: string[] = [];
  askedAt = Number.NEGATIVE_INFINITY;
  asking: Promise<void> | undefined;
}
