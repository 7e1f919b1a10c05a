import type { BackupState } from "./platform/backup/schedule.ts";
import type { Clock } from "./platform/clock.ts";
import type { Cloud } from "./platform/config/cloud.ts";
import type { Config } from "./platform/config/config.ts";
import type { Db } from "./platform/db/db.ts";
import type { Log } from "./platform/log.ts";
import type { Dial } from "./platform/network/http_client.ts";
import type { Pricing } from "./platform/pricing.ts";
import type { SecretBox } from "./platform/secrets.ts";
import type { MeteredStorage } from "./platform/storage/storage.ts";
import type { TrustedClock } from "./platform/trusted_clock.ts";
import type { TurnsState } from "./platform/turn_report.ts";
import type { Supervisor } from "./platform/workers/supervisor.ts";
import type { RewardPool } from "./sandbox/reward/types.ts";
import type { LoopName } from "./schedules.ts";

export const SCOPES = ["*", "read", "inference", "training", "detect", "metrics", "annotate", "admin"] as const;
export type Scope = (typeof SCOPES)[number];

/** The caller of a request. Every query is scoped to `workspaceId`. */
export type Principal = {
  readonly workspaceId: string;
  readonly keyId: string;
  readonly scopes: readonly Scope[];
  /** The user that the key belongs to; null: a service. */
  readonly userId?: string | null;
  /** The key is that of a rollout, whose requests go to this model. */
  readonly rollout?: { readonly id: string; readonly model: string };
};

/** The caller of a request with the cookie of a browser session. `csrf`: the token that its writes must carry. */
export type SessionPrincipal = Principal & { readonly sessionId: string; readonly csrf: string };

/** Everything that lives only in this process, by owner. An owner declares its field beside its class. */
// An interface, so that this file knows no owner of another ring: types would run in a circle.
export interface State {
  readonly trustedClock: TrustedClock;
  readonly backup: BackupState;
  readonly turns: TurnsState;
}

/** Everything a feature may reach that is not its own code. Made once, in app.ts. */
export type Ctx = {
  readonly config: Config;
  /** Prices of an hour, by provider and GPU type. */
  readonly pricing: Pricing;
  /** Clouds of the operator: commands that make and end machines. */
  readonly clouds: readonly Cloud[];
  readonly db: Db;
  readonly clock: Clock;
  readonly log: Log;
  readonly secrets: SecretBox;
  readonly storage: MeteredStorage;
  readonly supervisor: Supervisor;
  /** Processes that run reward code. */
  readonly rewards: RewardPool;
  /** Key text → principal; throws the 401 that fits. */
  readonly authenticate: (key: string | undefined) => Principal;
  /** Token of a browser session → principal of its key; throws the 401 that fits. */
  readonly authenticateSession: (token: string) => SessionPrincipal;
  /** Asks a background loop to run soon. A lost call costs a delay, never work. */
  readonly wake: (loop: LoopName) => void;
  /** The only way to make outbound connections: every address is checked. */
  readonly dial: Dial;
  /** Aborts when the server begins to shut down: long responses end themselves on it. */
  readonly closing: AbortSignal;
  /** Everything that lives only in this process, by owner. */
  readonly state: State;
};
