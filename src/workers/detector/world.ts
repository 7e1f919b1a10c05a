/** What scoring needs, put together once when the worker opens. */

import type { Gate } from "./gate.ts";
import type { Limits, SharpLibrary } from "./image/decode.ts";
import type { Lanes } from "./lanes.ts";
import type { Models } from "./models.ts";

export type World = {
  sharp: SharpLibrary;
  limits: Limits;
  /** In bytes. */
  gate: Gate;
  lanes: Lanes;
  models: Models;
};
