import { Inspector } from "./files/inspector.ts";

/** The state of models that lives in this process (`ctx.state.models`). */
export class ModelsState {
  /** Path in the models folder → size and time of change when it was last seen. */
  readonly seen = new Map<string, string>();
  readonly headers = new Inspector();
  /** Hashing a large file takes minutes: a look at another file's header does not wait behind it. */
  readonly hashes = new Inspector();
}
