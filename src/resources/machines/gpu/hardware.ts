/** Picks the kind of device that a job or a deployment runs on. */
import type { Ctx } from "../../../context.ts";
import type { DeviceReading } from "./inventory.ts";
import * as gpu from "./service.ts";

type WantedHardware = { gpu_type?: string | undefined; gpu_count?: number | undefined };

export type HardwareChoice = {
  type: string;
  count: number;
  /** Every device of this machine. */
  devices: readonly DeviceReading[];
  /** Undefined: the machine has it. */
  problem: { param: "/gpu/gpu_type" | "/gpu/gpu_count"; message: string } | undefined;
};

/** The caller's choice, or one device of the first type that this machine has. */
export async function chooseHardware(ctx: Ctx, wanted: WantedHardware = {}): Promise<HardwareChoice> {
  const all = await gpu.devices(ctx);
  const types = [...new Set(all.map((device) => device.type))];
  const type = wanted.gpu_type ?? types[0] ?? "cpu";
  const count = wanted.gpu_count ?? 1;
  const present = all.filter((device) => device.type === type).length;
  const problem = (param: "/gpu/gpu_type" | "/gpu/gpu_count", message: string) => ({
    type,
    count,
    devices: all,
    problem: { param, message },
  });
  if (present === 0) return problem("/gpu/gpu_type", `this machine has ${types.join(", ")}, not ${type}: leave it out`);
  if (count > present) return problem("/gpu/gpu_count", `this machine has ${present} of type ${type}, not ${count}`);
  return { type, count, devices: all, problem: undefined };
}
