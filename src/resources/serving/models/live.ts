import { Semaphore } from "../../../platform/semaphore.ts";
import { Inspectors } from "./files/inspector.ts";

declare module "../../../context.ts" {
  interface State {
    readonly models: ModelsState;
  }
}

const TEMPLATES = 3;
const FILES = { permits: 2, mostWaitingEach: 256 };

/** The state of models that lives in this process (`ctx.state.models`). */
export class ModelsState {
  /** Path in the models folder → size and time of change when it was last seen. */
  readonly seen = new Map<string, string>();
  readonly headers = new Inspectors({ name: "looks at model files", ...FILES });
  /** Hashing a large file takes minutes: a look at another file's header does not wait behind it. */
  readonly hashes = new Inspectors({ name: "hashes of model files", ...FILES });
  /** Groups of uploads that are being converted: their new file has no row yet. */
  readonly converting = new Set<string>();
  /** Quantizations at the same time: each uses every core. */
  readonly quantizations = new Semaphore({ name: "quantizations", permits: 2 });
  /** Models that are being quantized, by id: abort to end the work. */
  readonly quantizing = new Map<string, AbortController>();
  /** Downloads from the hub at the same time. */
  readonly downloads = new Semaphore({ name: "downloads", permits: 3 });
  /** Permits for processes that render chat templates. */
  readonly templates = new Semaphore({ name: "templates", permits: TEMPLATES });
}
