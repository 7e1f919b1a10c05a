/** records.ndjson of a run: only its supervisor appends. */
import {
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { KIB, MIB } from "../../lib/units.ts";
import { readIntoSync } from "../../platform/files.ts";
import type { NodeExit } from "../../platform/providers/protocol.ts";

export type Records = {
  /** Throws if the disk is full; the file then ends with the line before. */
  add: (record: object) => void;
  /** The end is flushed before `ended` says that it is there. */
  end: (exit: NodeExit) => void;
  close: () => void;
};

const RESERVE_BYTES = 64 * KIB;
const TORN_BYTES = 64 * MIB; // more than a record
const LF = 10;

/** A reserve is given back for the end, so that a run on a full disk can still say why it ended. */
export function openRecords(dir: string): Records {
  const reserve = join(dir, "reserve");
  writeFileSync(reserve, new Uint8Array(RESERVE_BYTES), { mode: 0o600 });
  const fd = openSync(join(dir, "records.ndjson"), "a+", 0o600);
  dropTornLine(fd);
  const add = (record: object) => {
    const before = fstatSync(fd).size;
    try {
      const bytes = Buffer.from(`${JSON.stringify({ time: Date.now(), ...record })}\n`);
      for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    } catch (error) {
      ftruncateSync(fd, before);
      throw error;
    }
  };
  const close = () => {
    fsyncSync(fd);
    closeSync(fd);
  };
  return {
    add,
    end(exit) {
      unlinkSync(reserve);
      add({ exit });
      close();
      writeFileSync(join(dir, "ended"), "", { mode: 0o600 });
    },
    close,
  };
}

/** A supervisor that was killed may have left half a line. */
function dropTornLine(fd: number) {
  const { size } = fstatSync(fd);
  const tail = Buffer.alloc(Math.min(size, TORN_BYTES));
  readIntoSync(fd, tail, size - tail.length);
  const end = tail.lastIndexOf(LF) + 1;
  if (end < tail.length) ftruncateSync(fd, size - tail.length + end);
}
