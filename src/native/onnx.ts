import { prepare } from "./bundle/addon.ts";
import { setNativeEnv } from "./libc.ts";

/** Loads ONNX Runtime. Only for child processes. */
export async function loadOnnx(dataDir: string) {
  // The library reads the variable during the load. Without it, it writes a device id and a database under HOME.
  setNativeEnv("ORT_DISABLE_TELEMETRY", "1");
  prepare("onnx", dataDir);
  return await import("onnxruntime-node");
}
