/** Live state of the loose keys. */
export class LooseKeysState {
  /** Keys that this process is writing. The sweep spares them. */
  readonly writing = new Set<string>();
}
