import { type Driver, readDriver } from "../../../platform/machine/gpu_nodes.ts";
import { listGpus } from "../../../platform/machine/hardware.ts";
import { newInventory } from "./inventory.ts";
import type { Kind } from "./service.ts";

declare module "../../../context.ts" {
  interface State {
    readonly gpu: GpuState;
  }
}

/** The state of the memory ledger that lives in this process (`ctx.state.gpu`). */
export class GpuState {
  readonly kinds = new Map<string, Kind>();
  /** Functions to call after each commit that freed memory. */
  readonly listeners = new Set<() => void>();
  readonly evicting = new Map<string, Promise<boolean>>();
  /** Holders whose lease is what they measured. */
  readonly settled = new Set<string>();
  /** Holders that have ended, until that is committed: on a full disk it may take more than one try. */
  readonly leaving = new Set<string>();
  inventory = newInventory(listGpus);
  /** Says which device nodes the cards have. */
  driver: () => Driver = readDriver;
}
