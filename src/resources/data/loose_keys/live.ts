declare module "../../../context.ts" {
  interface State {
    readonly looseKeys: LooseKeysState;
  }
}

/** Live state of the loose keys. */
export class LooseKeysState {
  /** Keys that this process is writing. The sweep spares them. */
  readonly writing = new Set<string>();
}
