declare module "../../../context.ts" {
  interface State {
    readonly metrics: MetricsState;
  }
}

/** The state of metrics that lives in this process (`ctx.state.metrics`). */
export class MetricsState {
  /** True once the counters of earlier processes were added. */
  isLoaded = false;
  scrapedAt = Number.NEGATIVE_INFINITY;
  pushedAt = Number.NEGATIVE_INFINITY;
}
