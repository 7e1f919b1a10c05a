/** Shared objects for scoring, made once when the worker opens. */

import type { X509Certificate } from "node:crypto";
import type { Gate } from "./gate.ts";
import type { Limits, SharpLibrary } from "./image/decode.ts";
import type { Lanes } from "./lanes.ts";
import type { Models } from "./models.ts";

export type World = {
  sharp: SharpLibrary;
  limits: Limits;
  /** Limits bytes in memory. */
  gate: Gate;
  lanes: Lanes;
  models: Models;
  /** The lab's list of trusted certificates, or null. */
  trusted: readonly X509Certificate[] | null;
};
