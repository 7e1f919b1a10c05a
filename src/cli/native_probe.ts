import type { ProbeKind, ProbeReport } from "../native/probe.ts";
import { self } from "../platform/workers/self.ts";

export const NATIVE_KINDS = ["sharp", "onnx", "llama"] as const satisfies readonly ProbeKind[];
export type NativeKind = (typeof NATIVE_KINDS)[number];

const TIMEOUT_MS = 120_000; // the first run unpacks the libraries, maybe onto a slow disk
const TAIL_CHARS = 2000;

/** Lets the caller kill its child processes and wait for their exits. */
export type Children = { signal: AbortSignal; exits: Promise<unknown>[] };

/** Runs a library's self-test in a child process: a library that does not fit the host crashes only the child. */
export async function probeInChild(kind: ProbeKind, dir: string, children?: Children): Promise<ProbeReport> {
  const startedAt = performance.now();
  const child = Bun.spawn(self("worker", "probe", kind, dir), {
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    killSignal: "SIGKILL",
    ...(children ? { signal: children.signal } : {}),
  });
  children?.exits.push(child.exited);
  const timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT_MS);
  try {
    const [out, err] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    const report = reportIn(out);
    if (report) return report;
    const end = child.signalCode ? `ended by ${child.signalCode}` : `ended with exit code ${child.exitCode}`;
    const error = `${end}${err.trim() ? `: ${err.trim().slice(-TAIL_CHARS)}` : ""}`;
    return { kind, ok: false, detail: {}, error, duration_ms: performance.now() - startedAt };
  } finally {
    clearTimeout(timer);
  }
}

/** The last line that is a report: a library may print other lines before it. */
function reportIn(stdout: string): ProbeReport | undefined {
  for (const line of stdout.trim().split("\n").reverse()) {
    if (!line.startsWith("{")) continue;
    try {
      const report = JSON.parse(line) as Partial<ProbeReport>;
      if (typeof report.ok === "boolean") return report as ProbeReport;
    } catch {
      // not the report
    }
  }
  return undefined;
}

/** `sharp 0.35.5, vips 8.18` from the report of a probe. */
export const versionsOf = ({ detail }: ProbeReport): string => {
  const devices = detail["devices"];
  if (Array.isArray(devices))
    return devices.map(({ name, description }) => (description ? `${name} (${description})` : name)).join(", ");
  return Object.entries(detail)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
};
