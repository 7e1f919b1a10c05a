/** The parameter of cuMemcpy2DAsync: rows that lie together on the host and apart on the device. */
import { ptr } from "bun:ffi";
import type { DeviceRows, HostRows } from "./kernels.ts";

const [HOST, DEVICE] = [1n, 2n];
const MOST_STRIDE = 2 ** 31 - 1; // of a copy of several rows
const [FROM, TO] = [0, 7]; // each: offset x, offset y, kind, address on the host, address on the device, array, stride
const [WIDTH, HEIGHT] = [14, 15];

export type Direction = "toDevice" | "toHost";

/** Calls `copy` with the address of each parameter that it takes to copy all rows. */
export function eachCopy(
  direction: Direction,
  on: DeviceRows,
  host: Uint8Array,
  { rows, bytes, stride }: HostRows,
  copy: (at: ReturnType<typeof ptr>) => void,
) {
  const isTogether = on.stride <= MOST_STRIDE && stride <= MOST_STRIDE;
  const [hostSide, deviceSide] = direction === "toDevice" ? [FROM, TO] : [TO, FROM];
  const words = new BigUint64Array(new ArrayBuffer(16 * 8));
  const start = ptr(host);
  for (let row = 0; row < rows; row += isTogether ? rows : 1) {
    words[hostSide + 2] = HOST;
    words[hostSide + 3] = BigInt(start + row * stride);
    words[hostSide + 6] = BigInt(isTogether ? stride : bytes);
    words[deviceSide + 2] = DEVICE;
    words[deviceSide + 4] = BigInt(on.at + row * on.stride);
    words[deviceSide + 6] = BigInt(isTogether ? on.stride : bytes);
    words[WIDTH] = BigInt(bytes);
    words[HEIGHT] = BigInt(isTogether ? rows : 1);
    copy(ptr(words));
  }
}
