import { z } from "zod";
import { outside } from "../../../../lib/json/outside.ts";
import { later } from "../../../../lib/schema.ts";
import { NodeExit, RECORD_BYTES } from "../../../../platform/providers/protocol.ts";
import { FromTrainer } from "../../../../workers/protocol_trainer.ts";

/** One line of records.ndjson: a message of the trainer, or the end. `time`: epoch milliseconds of the node. */
const NodeRecord = later(() =>
  z.union([
    z.strictObject({ time: z.int().min(0), message: FromTrainer }),
    z.strictObject({ time: z.int().min(0), exit: NodeExit }),
  ]),
);
export type NodeRecord = z.infer<typeof NodeRecord>;

export const NODE_RECORD = outside("a record of the run's node", NodeRecord, {
  mostBytes: RECORD_BYTES,
  parsing: "thread",
});
