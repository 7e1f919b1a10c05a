import type { Ctx } from "../../../context.ts";
import { DiskSpace } from "../../../platform/machine/disk.ts";
import { Meters } from "../../../platform/storage/meter.ts";

declare module "../../../context.ts" {
  interface State {
    readonly storageUsage: StorageUsageState;
  }
}

/** Live state of the storage: the bytes that are being written. */
export class StorageUsageState {
  readonly meters: Meters;
  constructor(ctx: Pick<Ctx, "config">) {
    this.meters = new Meters(new DiskSpace(ctx));
  }
}
