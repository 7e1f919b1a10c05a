import { prepare } from "./bundle/addon.ts";
import { setNativeEnv } from "./libc.ts";

/** ONNX Runtime. Only in a child process. */
export async function loadOnnx(dataDir: string) {
  // The library reads this while it loads; without it, it writes a device id and an event database under HOME.
  setNativeEnv("ORT_DISABLE_TELEMETRY", "1");
  prepare("onnx", dataDir);
  return await import("onnxruntime-node");
}
