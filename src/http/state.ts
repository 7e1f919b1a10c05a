import type { Ctx } from "../context.ts";
import type { AppError } from "../lib/errors.ts";
import { type Cidr, parseCidr } from "../lib/net/ip.ts";
import { ownQuotas } from "../platform/config/quotas.ts";
import { connectionsLeft } from "../platform/machine/descriptors.ts";
import { type BodyMemory, createBodyMemory } from "./limits/body_memory.ts";
import { FairTurns } from "./limits/fair_turns.ts";
import { createLongReads } from "./limits/long_reads.ts";
import { createLimiter, type RateLimiter } from "./limits/rate_limit.ts";
import { createStreams, recounting, type Streams } from "./limits/streams.ts";
import { createUnderWay, type UnderWay } from "./limits/under_way.ts";

declare module "../context.ts" {
  interface State {
    readonly http: HttpState;
  }
}

/** The state of the HTTP server that lives in this process (`ctx.state.http`). */
export class HttpState {
  /** Set when the port is open. Where there are two servers, either knows the connection of any request. */
  listener: Bun.Server<undefined> | undefined;
  /** `most`: highest descriptor of a connection from another machine. Undefined where there is no limit. */
  connections: { most: number; refused: () => number } | undefined;
  /** Reads the files of the certificate again and uses them if they changed. Undefined without TLS. */
  renewTls: (() => void) | undefined;
  /** By API key. In memory: a restart forgives at most one burst for each. */
  readonly rates: RateLimiter;
  /** By workspace. */
  readonly workspaceRates: RateLimiter;
  /**
   * Calls with a key that is known and refused. Each admitted call writes one row of the audit log: enough to show that
   * the key is still tried, whatever http.rate_limit_per_second says.
   */
  readonly refusedKeys: RateLimiter;
  readonly bodyMemory: BodyMemory;
  readonly underWay: UnderWay;
  readonly streams: Streams;
  readonly longReads = createLongReads();
  readonly turns = new FairTurns();
  readonly trustedProxies: readonly Cidr[];
  /** Workspace and Idempotency-Key → the creation under way. */
  readonly creations = new Map<string, Promise<unknown>>();

  /** Called for each request that is refused. Set by the inference routes, which keep a record of theirs. */
  onRefusal: ((request: Request, error: AppError) => void) | undefined;

  constructor({ config, clock }: Pick<Ctx, "config" | "clock">) {
    const { http } = config;
    const { rate_limit_per_second: perSecond, rate_limit_burst: burst } = http;
    this.rates = createLimiter(clock, { perSecond, burst }, `More than ${perSecond} requests a second with this key`);
    this.workspaceRates = workspaceLimiter(config, clock);
    this.refusedKeys = createLimiter(clock, { perSecond: 1 / 6, burst: 10 }, "This key is refused");
    this.bodyMemory = createBodyMemory({ all: http.body_memory_bytes, workspace: http.workspace_body_memory_bytes });
    this.underWay = createUnderWay(http.max_requests_per_key);
    const streams = { key: http.max_streams_per_key, workspace: http.max_streams_per_workspace, all: http.max_streams };
    this.streams = createStreams(streams, recounting(connectionsLeft));
    this.trustedProxies = http.trusted_proxies.map(parseCidr).filter((cidr) => cidr !== undefined);
  }
}

/** One limiter for all workspaces, and one for each workspace with a quota of its own. */
function workspaceLimiter(config: Ctx["config"], clock: Ctx["clock"]): RateLimiter {
  const limiter = (perMinute: number, setting: string) =>
    createLimiter(
      clock,
      { perSecond: perMinute / 60, burst: perMinute },
      `More than ${perMinute} requests a minute in this workspace (${setting})`,
    );
  const shared = limiter(config.quotas.requests_per_minute, "quotas.requests_per_minute");
  const byWorkspace = new Map(
    [...ownQuotas(config, "requests_per_minute")].map(([id, most]) => [id, limiter(most, "quotas.workspaces")]),
  );
  if (byWorkspace.size === 0) return shared;
  const of = (workspaceId: string) => byWorkspace.get(workspaceId) ?? shared;
  return { spend: (id) => of(id).spend(id), admits: (id) => of(id).admits(id) };
}
