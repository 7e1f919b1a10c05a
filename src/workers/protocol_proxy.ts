/** The proxy connects the programs of one jail with outside servers, through the guard of addresses. It ends with the jail. */
import { z } from "zod";
import { later } from "../lib/schema.ts";
import { fromWorker } from "./protocol.ts";

const HOST = z.string().max(300);

export const ToProxy = later(() =>
  z.discriminatedUnion("type", [
    z.strictObject({
      type: z.literal("serve"),
      network: z.strictObject({ allow_private: z.boolean(), allow: z.array(z.string()) }),
      /** Both directions together. */
      max_bytes: z.number().positive(),
      connect_ms: z.int().positive(),
    }),
  ]),
);
export type ToProxy = z.infer<typeof ToProxy>;

export const FromProxy = later(() =>
  fromWorker([
    /** Connections to the socket of the worker are accepted. */
    z.strictObject({ type: z.literal("listening") }),
    /** Totals so far. */
    z.strictObject({
      type: z.literal("traffic"),
      connections: z.int(),
      refused: z.int(),
      sent_bytes: z.number(),
      received_bytes: z.number(),
    }),
    /** Once for each host. `detail`: only for the server's log, the address behind the name. */
    z.strictObject({
      type: z.literal("refused"),
      host: HOST,
      reason: z.string().max(1_000),
      detail: HOST.optional(),
    }),
  ]),
);
export type FromProxy = z.infer<typeof FromProxy>;
export type Traffic = Omit<Extract<FromProxy, { type: "traffic" }>, "type">;
