/** What scoring needs, put together once when the worker opens. */
import type { Limits, SharpLibrary } from "./decode.ts";
import type { Gate } from "./gate.ts";
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
