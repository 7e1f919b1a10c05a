import type { Device } from "../../native/cuda/decode/kernels.ts";

/** If `open` throws, for example for lack of memory, everything that it allocated is free again. */
export function withOwnMemory<T>(device: Device, open: (device: Device) => T): T {
  const taken = new Set<number>();
  const allocate = (bytes: number) => {
    const at = device.allocate(bytes);
    taken.add(at);
    return at;
  };
  const free = (at: number) => {
    taken.delete(at);
    device.free(at);
  };
  try {
    return open({ ...device, allocate, free });
  } catch (error) {
    taken.forEach(device.free);
    throw error;
  }
}
