import type { Seen } from "./authenticate.ts";

/** The state of API keys that lives in this process (`ctx.state.apiKeys`). */
export class ApiKeysState {
  /** Hash of a key → its last look-up. */
  readonly seen = new Map<string, Seen>();
  /** Key → time of its last use that is not written yet. */
  readonly uses = new Map<string, number>();
}
