import type { Refused } from "../protocol_detector.ts";

/** The file is at fault. The message is shown to the sender and says how to fix it. */
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
