import type { InspectorLine } from "./files/inspect.ts";

/** The state of models that lives in this process (`ctx.state.models`). */
export class ModelsState {
  /** Path in the models folder → size and time of change when it was last seen. */
  readonly seen = new Map<string, string>();
  /** Hashing a large file takes minutes, so a look at a file does not wait behind it. */
  inspectors: { look: InspectorLine; hash: InspectorLine } | undefined;
}
