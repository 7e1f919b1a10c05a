import { Semaphore } from "../../platform/semaphore.ts";
import { Inspector } from "./files/inspector.ts";

const TEMPLATES = 2;
const MAX_WAITING_TEMPLATES = 64;

/** The state of models that lives in this process (`ctx.state.models`). */
export class ModelsState {
  /** Path in the models folder → size and time of change when it was last seen. */
  readonly seen = new Map<string, string>();
  readonly headers = new Inspector();
  /** Hashing a large file takes minutes: a look at another file's header does not wait behind it. */
  readonly hashes = new Inspector();
  /** Groups of uploads that are being converted: their new file has no row yet. */
  readonly converting = new Set<string>();
  /** Permits for processes that render chat templates. */
  readonly templates = new Semaphore({ permits: TEMPLATES, maxWaiting: MAX_WAITING_TEMPLATES });
}
