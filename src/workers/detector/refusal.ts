import type { Refused } from "../protocol_detector.ts";

/** The file is at fault: told to whoever sent it, with what to do about it. */
export class Refusal extends Error {
  constructor(
    readonly code: Refused["code"],
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "Refusal";
  }
}
