import { readdirSync, readFileSync } from "node:fs";

/** `used`: open ones of the process. A limit may be Infinity. */
export type Descriptors = { soft: number; hard: number; used: number };

/** Undefined where /proc does not say. The directory can be read only with a descriptor: without one, all are used. */
export function descriptorsOf(pid: number | "self" = "self"): Descriptors | undefined {
  let limits: number[] = [];
  try {
    const match = /^Max open files\s+(\d+|unlimited)\s+(\d+|unlimited)/m.exec(
      readFileSync(`/proc/${pid}/limits`, "utf8"),
    );
    limits = (match?.slice(1) ?? []).map((text) => (text === "unlimited" ? Number.POSITIVE_INFINITY : Number(text)));
    const [soft, hard] = limits;
    if (soft === undefined || hard === undefined) return undefined;
    return { soft, hard, used: readdirSync(`/proc/${pid}/fd`).length };
  } catch (error) {
    if ((error as { code?: unknown }).code !== "EMFILE") return undefined;
    const [soft = 0, hard = soft] = limits;
    return { soft, hard, used: soft };
  }
}

const LARGEST_RESERVE = 1024;
const SMALLEST_RESERVE = 128;

/** The highest number of a connection's descriptor. The rest is for files and workers. */
export function mostConnections(soft: number): number {
  const reserve = Math.max(soft / 4, Math.min(SMALLEST_RESERVE, soft / 2));
  return Math.floor(soft - Math.min(LARGEST_RESERVE, reserve));
}

/** Connections that this process may still accept. Undefined: there is no limit. */
export function connectionsLeft(): number | undefined {
  const descriptors = descriptorsOf();
  if (descriptors === undefined || descriptors.soft === Number.POSITIVE_INFINITY) return undefined;
  return mostConnections(descriptors.soft) - descriptors.used;
}

const ENOUGH = 4096;

/** Undefined: the limit is high enough. */
export function fewDescriptors({ soft, hard }: Descriptors): { detail: string; fix: string } | undefined {
  if (soft >= ENOUGH) return undefined;
  return {
    detail: `limit ${soft} (hard ${hard}), of which connections get ${mostConnections(soft)}: more at once are refused`,
    fix: "run ulimit -n 65536, or set LimitNOFILE=65536 in the systemd unit",
  };
}
