/** Rows of a dataset by index. Each takes four bytes of memory and is read from the file on demand. */
import { openRows } from "../../../platform/rows/file.ts";
import { createLookup, liveRows } from "../../../platform/rows/live.ts";
import type { TrainPlan } from "../../protocol_trainer.ts";

type RowsSpec = TrainPlan["rows"];

export type RowSource = {
  readonly format: RowsSpec["format"];
  readonly count: number;
  /** Returns the row's text as stored. */
  text: (index: number) => string;
  /** Visits every row in order, page by page: faster than single reads. */
  each: (visit: (index: number, text: string) => void) => Promise<void>;
  close: () => void;
};

const PAGE_ROWS = 1000;

const decoder = new TextDecoder();

/** `onPage` is called while all rows are read, with the fraction done; it also proves that this process is alive. */
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
  const rowIds = ids.done();
  return {
    format: spec.format,
    count: rowIds.length,
    text(index) {
      const id = rowIds[index];
      if (id === undefined) throw new Error(`row ${index + 1} of ${rowIds.length} is missing`);
      return decoder.decode(lookup.bytes(id)).trimEnd(); // remove the line feed
    },
    async each(visit) {
      let index = 0;
      for (let after = 0; ; ) {
        const { entries, hasMore } = await liveRows(file, after, PAGE_ROWS, spec.head_row);
        for (const { text } of entries) visit(index++, text ?? "");
        onPage(index / rowIds.length);
        if (!hasMore) return;
        after = entries.at(-1)?.rowId ?? after;
      }
    },
    close: () => file.close(),
  };
}

/** A growing list of numbers below 2³². */
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
