/** The state of clouds that lives in this process (`ctx.state.clouds`). */
declare module "../../../context.ts" {
  interface State {
    readonly clouds: CloudsState;
  }
}

/** Work that waits for a machine. `at`: steady time of the last request. */
export type MachineRequest = { at: number; keyId: string | null };
/** Failed starts of a region in a row. `notBefore`: steady time of the next one. */
export type StartFailure = { count: number; notBefore: number; reason: string };
/** `at`: steady time of the last list. */
export type Sweep = { at: number; failures: number; orphans: readonly string[] };

export class CloudsState {
  /** By region. */
  readonly requests = new Map<string, MachineRequest>();
  readonly failures = new Map<string, StartFailure>();
  /** Machine → its start or its end, which runs now. */
  readonly tasks = new Map<string, Promise<void>>();
  /** Machines for which this process calls `up`. */
  readonly starting = new Set<string>();
  /** Machine → lists in a row that did not have its name. */
  readonly missed = new Map<string, number>();
  /** By cloud. */
  readonly sweeps = new Map<string, Sweep>();
  readonly sweeping = new Map<string, Promise<void>>();
}
