import { NATIVE_KINDS, type NativeKind, probeInChild, versionsOf } from "../native_probe.ts";
import { type Check, fail, ok, type Scene, type Verdict } from "./check.ts";

const LABELS: Record<NativeKind, string> = {
  sharp: "images (sharp)",
  onnx: "detectors (onnx)",
  llama: "language models (llama)",
};

export const nativeChecks: readonly Check[] = NATIVE_KINDS.map((kind) => ({
  name: LABELS[kind],
  run: (scene: Scene) => library(kind, scene),
}));

async function library(kind: NativeKind, scene: Scene): Promise<Verdict> {
  const report = await probeInChild(kind, scene.probeDir);
  if (report.ok) return ok(`${versionsOf(report)}, ${Math.round(report.duration_ms)} ms`);
  return fail(
    report.error ?? "the self-test failed",
    "follow the message; the check has already unpacked the library again, so report the problem if it stays",
  );
}
