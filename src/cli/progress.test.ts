import { expect, test } from "bun:test";
import { createProgress } from "./progress.ts";

const screen = (isTTY: boolean, columns = 80) => {
  const written: string[] = [];
  return { isTTY, columns, written, write: (text: string) => void written.push(text) };
};

test("a terminal gets a bar that is drawn over itself and taken away at the end", () => {
  const out = screen(true);
  const progress = createProgress(out);
  progress.show("loading", 0.5);
  progress.show("loading", 0.5);
  progress.show("waits for 3.1 GB");
  progress.end();
  expect(out.written).toEqual([
    `\r\x1b[K${"█".repeat(15)}${"░".repeat(15)}  50 %  loading`,
    "\r\x1b[Kwaits for 3.1 GB",
    "\r\x1b[K",
  ]);
});

test("what changes all the time is shown on a terminal alone", () => {
  const [terminal, file] = [screen(true), screen(false)];
  for (const out of [terminal, file]) {
    const progress = createProgress(out);
    progress.show("uploading", undefined, "1 MiB, 9 MiB/s");
    progress.show("uploading", undefined, "2 MiB, 9 MiB/s");
  }
  expect(terminal.written.join("")).toBe("\r\x1b[Kuploading  1 MiB, 9 MiB/s\r\x1b[Kuploading  2 MiB, 9 MiB/s");
  expect(file.written).toEqual(["uploading\n"]);
});

test("a line never wraps: what wraps cannot be drawn over", () => {
  const out = screen(true, 20);
  createProgress(out).show("waits for 3.1 GB on H200 #0, held by somebody");
  expect(out.written).toEqual(["\r\x1b[Kwaits for 3.1 GB o…"]);
});

test("elsewhere it is a line for each stage and each further tenth", () => {
  const out = screen(false);
  const progress = createProgress(out);
  for (const fraction of [0, 0.05, 0.11, 0.19, 1]) progress.show("loading", fraction);
  progress.show("warming", 1);
  progress.end();
  expect(out.written).toEqual(["loading 0 %\n", "loading 10 %\n", "loading 100 %\n", "warming 100 %\n"]);
});
