/**
 * The reports of the steps since the last checkpoint. Each checkpoint carries them: a report that never reached the
 * server, because the server was killed, is in the checkpoint that the next server adopts.
 */
import { MIB } from "../../../lib/units.ts";
import type { StepRecord } from "../../protocol_trainer.ts";

/** Samples of the oldest steps are left out beyond this. Metrics always stay. */
const SAMPLE_BYTES = 16 * MIB;

export function createJournal(mostBytes = SAMPLE_BYTES) {
  let records: { record: StepRecord; bytes: number }[] = [];
  let bytes = 0;
  return {
    add(record: StepRecord) {
      const size = JSON.stringify(record.samples).length;
      records.push({ record, bytes: size });
      bytes += size;
      for (let i = 0; bytes > mostBytes && i < records.length; i++) {
        const oldest = records[i]!;
        bytes -= oldest.bytes;
        records[i] = { record: { ...oldest.record, samples: [] }, bytes: 0 };
      }
    },
    text: () => records.map(({ record }) => `${JSON.stringify(record)}\n`).join(""),
    clear() {
      records = [];
      bytes = 0;
    },
  };
}
export type Journal = ReturnType<typeof createJournal>;
