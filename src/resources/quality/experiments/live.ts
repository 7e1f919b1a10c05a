import { Semaphore } from "../../../platform/semaphore.ts";
import { type Ports, ports } from "./ports.ts";

declare module "../../../context.ts" {
  interface State {
    readonly experiments: ExperimentsState;
  }
}

type Running = { stop: AbortController; done: Promise<void> };

/** The state of experiments that lives in this process (`ctx.state.experiments`). */
export class ExperimentsState {
  /** Experiments whose items are worked on now. */
  readonly running = new Map<string, Running>();
  /** One for each workspace. An experiment mostly waits for its deployments, which have limits of their own. */
  readonly permits = new Semaphore({ name: "experiments", permits: 16, mostEach: 1 });
  /** Experiments that wait after a fault of the server. `notBefore`: by the steady clock. */
  readonly faults = new Map<string, { failures: number; notBefore: number }>();
  /** Ids whose snapshot is pinned and whose row does not exist yet. */
  readonly admitting = new Set<string>();
  /** Resolves when there may be an experiment to start. */
  bell = Promise.withResolvers<void>();
  /** Tests replace them. */
  ports: Ports = ports;
}
