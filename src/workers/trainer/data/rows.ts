/** Rows of a dataset by their number, whatever its size: four bytes of memory each, read from the file when asked for. */
import { openRows } from "../../../platform/rows/file.ts";
import { createLookup, liveRows } from "../../../platform/rows/live.ts";
import type { TrainPlan } from "../../protocol_trainer.ts";

type RowsSpec = TrainPlan["rows"];

export type RowSource = {
  readonly format: RowsSpec["format"];
  readonly count: number;
  /** As it is stored. */
  text: (index: number) => string;
  /** Every row in order, page by page: faster than one by one. */
  each: (visit: (index: number, text: string) => void) => Promise<void>;
  close: () => void;
};

const PAGE_ROWS = 1000;

const decoder = new TextDecoder();

/** `onPage`: this process is alive, and so much of a reading of all rows is done. */
export async function openRowSource(spec: RowsSpec, onPage: (fraction: number) => void): Promise<RowSource> {
  const file = openRows(spec.path, "read");
  const lookup = createLookup(file);
  const ids = growing();
  for (let after = 0; ; ) {
    const { entries, hasMore } = await liveRows(file, after, PAGE_ROWS, spec.head_row);
    for (const { rowId } of entries) ids.push(rowId);
    onPage(0);
    if (!hasMore) break;
    after = entries.at(-1)?.rowId ?? after;
  }
  const places = ids.done();
  return {
    format: spec.format,
    count: places.length,
    text(index) {
      const id = places[index];
      if (id === undefined) throw new Error(`row ${index + 1} of ${places.length} is missing`);
      return decoder.decode(lookup.bytes(id)).trimEnd(); // the line feed
    },
    async each(visit) {
      let index = 0;
      for (let after = 0; ; ) {
        const { entries, hasMore } = await liveRows(file, after, PAGE_ROWS, spec.head_row);
        for (const { text } of entries) visit(index++, text ?? "");
        onPage(index / places.length);
        if (!hasMore) return;
        after = entries.at(-1)?.rowId ?? after;
      }
    },
    close: () => file.close(),
  };
}

/** Numbers below 2³², without a limit known before. */
export function growing() {
  let values = new Uint32Array(1024);
  let length = 0;
  return {
    push(value: number) {
      if (length === values.length) {
        const larger = new Uint32Array(2 * length);
        larger.set(values);
        values = larger;
      }
      values[length++] = value;
    },
    done: () => values.slice(0, length),
  };
}
