/** The state of stored content that lives in this process (`ctx.state.looseKeys`). */
export class LooseKeysState {
  /** Keys that are being written: the sweep leaves them alone. */
  readonly writing = new Set<string>();
}
